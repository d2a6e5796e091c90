"""spec.env and spec.envFrom: Kubernetes' EnvVar and EnvFromSource, typed so that errors are found at once."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field

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
