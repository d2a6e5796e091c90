"""The environment of training: spec.env and spec.envFrom as in Kubernetes, spec.runtimeEnv as in Ray.

EnvVar and EnvFromSource are typed so that errors are found at once. Ray's runtime_env keeps its snake_case keys.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, ConfigDict, Field, WithJsonSchema

from railhead.api.base import Model, Name, rules

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
    optional: bool | None = Field(default=None, description="Whether the pod may start without it.")


class FieldSelector(Model):
    """A field of the pod."""

    api_version: str | None = Field(default=None, max_length=63, description="Version of the path's schema.")
    field_path: str = Field(min_length=1, max_length=512, description="Path, for example spec.nodeName.")


class ResourceFieldSelector(Model):
    """A resource of a container."""

    container_name: str | None = Field(default=None, max_length=63, description="Which container. Default: this one.")
    resource: str = Field(min_length=1, max_length=253, description="For example limits.memory.")
    divisor: str | None = Field(default=None, max_length=32, description="Unit of the value, for example 1Mi.")


class ValueFrom(Model):
    """Where a variable's value comes from."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "",
                "[has(self.configMapKeyRef), has(self.secretKeyRef), has(self.fieldRef), "
                "has(self.resourceFieldRef)].exists_one(x, x)",
                "exactly one of configMapKeyRef, secretKeyRef, fieldRef and resourceFieldRef must be set",
            )
        )
    )
    config_map_key_ref: KeySelector | None = Field(default=None, description="A key of a ConfigMap.")
    secret_key_ref: KeySelector | None = Field(default=None, description="A key of a Secret.")
    field_ref: FieldSelector | None = Field(default=None, description="A field of the pod.")
    resource_field_ref: ResourceFieldSelector | None = Field(default=None, description="A resource of the container.")


class EnvVar(Model):
    """A Kubernetes EnvVar."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (".name", f"!({RESERVED.format('self.name')})", RESERVED_MESSAGE),
            ("", "!(has(self.value) && has(self.valueFrom))", "value and valueFrom are mutually exclusive"),
        )
    )
    name: str = Field(min_length=1, max_length=256, pattern=ENV_NAME, description="Name of the variable.")
    value: Annotated[str, Field(max_length=32768)] | None = Field(default=None, description="Its value.")
    value_from: ValueFrom | None = Field(default=None, description="Where its value comes from, as in a pod.")


class EnvSource(Model):
    """All keys of a ConfigMap or Secret of the same namespace."""

    name: Name = Field(description="Name of the ConfigMap or Secret.")
    optional: bool | None = Field(default=None, description="Whether the pod may start without it.")


class EnvFrom(Model):
    """A Kubernetes EnvFromSource."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "",
                "has(self.configMapRef) != has(self.secretRef)",
                "exactly one of configMapRef and secretRef must be set",
            )
        )
    )
    prefix: str | None = Field(
        default=None, max_length=256, pattern=ENV_NAME, description="Prefix of the variables' names."
    )
    config_map_ref: EnvSource | None = Field(default=None, description="All keys of a ConfigMap.")
    secret_ref: EnvSource | None = Field(default=None, description="All keys of a Secret.")


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
Place = Annotated[str, Field(min_length=1, max_length=1024)]
VariableName = Annotated[str, Field(min_length=1, max_length=256, pattern=ENV_NAME)]


class RuntimeEnvConfig(Model):
    """Ray's RuntimeEnvConfig."""

    model_config = ConfigDict(alias_generator=None)
    setup_timeout_seconds: int | None = Field(
        default=None, ge=1, le=86400, description="Timeout for creating the environment. Default: 600."
    )
    eager_install: bool | None = Field(
        default=None, description="Whether it is created before a worker needs it. Default: true."
    )


class RuntimeEnv(Model):
    """The environment of the training processes, created by Ray in each worker pod."""

    model_config = ConfigDict(alias_generator=None)
    env_vars: dict[VariableName, Annotated[str, Field(max_length=32768)]] | None = Field(
        default=None,
        max_length=128,
        description="Environment variables.",
        json_schema_extra=rules(
            (
                "",
                f"self.all(k, k == 'PYTHONPATH' || !({RESERVED.format('k')}))",
                RESERVED_MESSAGE.replace(" PYTHONPATH,", ""),
            )
        ),
    )
    pip: Packages | None = Field(
        default=None,
        description="Packages to install: a list, a requirements file, or {packages, pip_check, pip_version, "
        "pip_install_options}. The image needs virtualenv.",
    )
    uv: Packages | None = Field(default=None, description="As pip, with uv.")
    conda: Packages | None = Field(default=None, description="A conda environment: its name, its file, or its content.")
    working_dir: Place | None = Field(
        default=None,
        description="Folder or archive that the workers run in: a URI, or a path in the head pod; a relative one "
        "starts in the code's folder.",
    )
    py_modules: list[Place] | None = Field(
        default=None, min_length=1, max_length=32, description="Modules or wheels for the workers, as working_dir."
    )
    excludes: list[Place] | None = Field(
        default=None, min_length=1, max_length=128, description="What to exclude from working_dir and py_modules."
    )
    config: RuntimeEnvConfig | None = Field(default=None, description="How the environment is created.")
