"""spec.source: where the user's code comes from."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import ConfigDict, Field

from railhead.api.base import Model, Name, planned, rules

Text = Annotated[str, Field(max_length=262144)]
FileName = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9_][-A-Za-z0-9_.]*$")]


# As a kubelet takes it: relative, and no part of it is "." or ".." or begins with "..".
RELATIVE_PATH = r"^(\.?[-A-Za-z0-9_][-A-Za-z0-9_.]*/)*\.?[-A-Za-z0-9_][-A-Za-z0-9_.]*$"
RelativePath = Annotated[str, Field(min_length=1, max_length=512, pattern=RELATIVE_PATH)]


class ConfigMapItem(Model):
    """One key of the ConfigMap and the file that it becomes."""

    key: str = Field(min_length=1, max_length=253, pattern=r"^[-._a-zA-Z0-9]+$", description="Key of the ConfigMap.")
    path: RelativePath = Field(
        description="File that it becomes, for example pkg/model.py: relative, with / between folders."
    )


class ConfigMapSource(Model):
    """User code in a ConfigMap of the same namespace, as it is when the job starts."""

    name: Name = Field(description="Name of the ConfigMap; without items each key is one file.")
    items: list[ConfigMapItem] | None = Field(
        default=None,
        min_length=1,
        max_length=128,
        description="Which keys become which files; other keys are left out.",
        json_schema_extra={
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["path"],
            **rules(
                (
                    "",
                    "self.all(a, !self.exists(b, b.path.startsWith(a.path + '/')))",
                    "a path cannot be a file and the folder of another one; change one of both",
                )
            ),
        },
    )


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
    config_map: ConfigMapSource | None = Field(
        default=None, description="A ConfigMap whose keys are the files; it is copied once, before the first attempt."
    )
    git: Any | None = planned("A git repository.")
