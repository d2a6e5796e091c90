"""spec.source: where the user's code comes from."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import ConfigDict, Field

from railhead.api.base import Model, Name, planned, rules

Text = Annotated[str, Field(max_length=262144)]
FileName = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9_][-A-Za-z0-9_.]*$")]


class ConfigMapSource(Model):
    """User code in a ConfigMap of the same namespace."""

    name: Name = Field(description="Name of the ConfigMap; each key is one file.")


class Source(Model):
    """Where the code of train_func comes from. Without it the code is in the image."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "",
                "has(self.inline) != has(self.configMap)",
                "exactly one of inline and configMap must be set",
            )
        )
    )
    inline: dict[FileName, Text] | None = Field(
        default=None,
        min_length=1,
        max_length=32,
        description="File name to content, for example {train.py: ...}. For small code: 262144 characters in all.",
        json_schema_extra=rules(
            (
                "",
                "self.map(k, size(self[k])).sum() <= 262144",
                "at most 262144 characters in all; put more code into the image or a ConfigMap",
            )
        ),
    )
    config_map: ConfigMapSource | None = Field(default=None, description="A ConfigMap whose keys are the files.")
    git: Any | None = planned("A git repository.")
