"""spec.runtimeEnv: Ray's runtime_env for the training workers, with Ray's own snake_case keys."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, ConfigDict, Field, WithJsonSchema

from railhead.api.base import Model, rules
from railhead.api.env import ENV_NAME, RESERVED, RESERVED_MESSAGE


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
