"""The environment of training: spec.env and spec.envFrom as in Kubernetes, spec.runtimeEnv as in Ray.

EnvVar and EnvFromSource are typed so that errors are found at once. Ray's runtime_env keeps its snake_case keys.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, ConfigDict, Field, WithJsonSchema

from railhead.api.locations import CodeLocation, FilePattern
from railhead.api.model import Model, Name, checked, exactly_one, optional, rules

ENV_NAME = r"^[A-Za-z_][A-Za-z0-9_]*$"
# Used between operator, driver and Ray: a user's value would break the job in ways that are hard to diagnose.
RESERVED = (
    "{0}.startsWith('RAILHEAD_') || {0}.startsWith('RAY_AUTH_') || {0}.startsWith('RAY_OVERRIDE_') || "
    "{0} in ['RAY_ADDRESS', 'RAY_TRAIN_CALLBACKS', 'PYTHONPATH', 'CUDA_VISIBLE_DEVICES', 'NVIDIA_VISIBLE_DEVICES']"
)
RESERVED_MESSAGE = (
    "RAILHEAD_*, RAY_AUTH_*, RAY_OVERRIDE_*, RAY_ADDRESS, RAY_TRAIN_CALLBACKS, PYTHONPATH, CUDA_VISIBLE_DEVICES and "
    "NVIDIA_VISIBLE_DEVICES are reserved"
)


class KeySelector(Model):
    """One key of a ConfigMap or Secret of the same namespace."""

    name: Name = Field(description="Name of the ConfigMap or Secret.")
    key: str = Field(min_length=1, max_length=253, pattern=r"^[-._a-zA-Z0-9]+$", description="Key in it.")
    optional: bool | None = optional("Whether the pod may start without it.")


class FieldSelector(Model):
    """A field of the pod."""

    api_version: str | None = optional("Version of the path's schema.", max_length=63)
    field_path: str = Field(min_length=1, max_length=512, description="Path, for example spec.nodeName.")


class ResourceFieldSelector(Model):
    """A resource of a container."""

    container_name: str | None = optional("Which container. Default: this one.", max_length=63)
    resource: str = Field(min_length=1, max_length=253, description="For example limits.memory.")
    divisor: str | None = optional("Unit of the value, for example 1Mi.", max_length=32)


class ValueFrom(Model):
    """Where a variable's value comes from."""

    model_config = checked(exactly_one("configMapKeyRef", "secretKeyRef", "fieldRef", "resourceFieldRef"))
    config_map_key_ref: KeySelector | None = optional("A key of a ConfigMap.")
    secret_key_ref: KeySelector | None = optional("A key of a Secret.")
    field_ref: FieldSelector | None = optional("A field of the pod.")
    resource_field_ref: ResourceFieldSelector | None = optional("A resource of the container.")


# Each pod carries all variables, so a job of many workers stores them many times.
MAX_ENV_BYTES = 65536
TOO_MUCH_ENV = "at most 64 KiB in total; put large values into a ConfigMap (envFrom), a volume or the image"
ENV_SIZE = (
    "",
    f"self.map(e, size(e.name) + (has(e.value) ? size(bytes(e.value)) : 0)).sum() <= {MAX_ENV_BYTES}",
    TOO_MUCH_ENV,
)


class EnvVar(Model):
    """A Kubernetes EnvVar."""

    model_config = checked(
        (".name", f"!({RESERVED.format('self.name')})", RESERVED_MESSAGE),
        ("", "!(has(self.value) && has(self.valueFrom))", "value and valueFrom are mutually exclusive"),
    )
    name: str = Field(min_length=1, max_length=256, pattern=ENV_NAME, description="Name of the variable.")
    value: Annotated[str, Field(max_length=32768)] | None = optional("Its value.")
    value_from: ValueFrom | None = optional("Where its value comes from, as in a pod.")


class EnvSource(Model):
    """All keys of a ConfigMap or Secret of the same namespace."""

    name: Name = Field(description="Name of the ConfigMap or Secret.")
    optional: bool | None = optional("Whether the pod may start without it.")


class EnvFrom(Model):
    """A Kubernetes EnvFromSource."""

    model_config = checked(exactly_one("configMapRef", "secretRef"))
    prefix: str | None = optional("Prefix of the variables' names.", max_length=256, pattern=ENV_NAME)
    config_map_ref: EnvSource | None = optional("All keys of a ConfigMap.")
    secret_ref: EnvSource | None = optional("All keys of a Secret.")


def _check_form(value: Any) -> Any:
    if not isinstance(value, (str, list, dict)):
        raise ValueError("must be a list, an object or a string")
    return value


# Ray accepts several forms; the API server stores any of them, and the driver lets Ray validate it.
Packages = Annotated[
    Any,
    AfterValidator(_check_form),
    WithJsonSchema({"x-kubernetes-preserve-unknown-fields": True, "anyForm": True}),
]
VariableName = Annotated[str, Field(min_length=1, max_length=256, pattern=ENV_NAME)]


class RuntimeEnvConfig(Model):
    """Ray's RuntimeEnvConfig."""

    model_config = ConfigDict(alias_generator=None)
    setup_timeout_seconds: int | None = optional("Timeout for creating the environment. Default: 600.", ge=1, le=86400)
    eager_install: bool | None = optional("Whether it is created before a worker needs it. Default: true.")


class RuntimeEnv(Model):
    """The environment of the training processes, created by Ray in each worker pod."""

    model_config = ConfigDict(alias_generator=None)
    env_vars: dict[VariableName, Annotated[str, Field(max_length=32768)]] | None = optional(
        "Environment variables.",
        max_length=128,
        json_schema_extra=rules(
            (
                "",
                f"self.all(k, k == 'PYTHONPATH' || !({RESERVED.format('k')}))",
                RESERVED_MESSAGE.replace(" PYTHONPATH,", ""),
            ),
            ("", f"self.map(k, size(k) + size(bytes(self[k]))).sum() <= {MAX_ENV_BYTES}", TOO_MUCH_ENV),
        ),
    )
    pip: Packages | None = optional(
        "Packages to install: a list, a requirements file, or {packages, pip_check, pip_version, "
        "pip_install_options}. The image needs virtualenv."
    )
    uv: Packages | None = optional("As pip, with uv.")
    conda: Packages | None = optional("A conda environment: its name, its file, or its content.")
    working_dir: CodeLocation | None = optional(
        "Folder or archive that the workers run in: a URI, or a path in the head pod; a relative one "
        "starts in the code's folder."
    )
    py_modules: list[CodeLocation] | None = optional(
        "Modules or wheels for the workers, as working_dir.", min_length=1, max_length=32
    )
    excludes: list[FilePattern] | None = optional(
        "What to exclude from working_dir and py_modules.", min_length=1, max_length=128
    )
    config: RuntimeEnvConfig | None = optional("How the environment is created.")
