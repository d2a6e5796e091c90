"""spec.source: where the user's code comes from."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from railhead.api.locations import NO_DOTS, check_segments
from railhead.api.model import Image, Model, Name, checked, exactly_one, optional, rules

MAX_INLINE_BYTES = 32_768  # every watch event carries the whole spec
Text = Annotated[str, Field(max_length=262144)]  # longer than a rule allows, whose message tells what to do
FileName = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9_][-A-Za-z0-9_.]*$")]


# As the kubelet requires: relative, and no segment is "." or ".." or starts with "..".
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
    items: list[ConfigMapItem] | None = optional(
        "Which keys become which files; other keys are omitted.",
        min_length=1,
        max_length=128,
        json_schema_extra={
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["path"],
            **rules(
                (
                    "",
                    "self.all(a, !self.exists(b, b.path.startsWith(a.path + '/')))",
                    "a path cannot be both a file and the folder of another one; change one of them",
                )
            ),
        },
    )


# Excludes anything that git could read as an option or as a program to run, and credentials.
_HOST = r"[A-Za-z0-9][-A-Za-z0-9.]*"
_PATH = r"[-A-Za-z0-9._~%+@/]+"
REPOSITORY = (
    rf"^(https://{_HOST}(:[0-9]+)?/{_PATH}"
    rf"|ssh://([A-Za-z0-9_][-A-Za-z0-9_.]*@)?{_HOST}(:[0-9]+)?/{_PATH}"
    rf"|[A-Za-z0-9_][-A-Za-z0-9_.]*@{_HOST}:[A-Za-z0-9._~/]{_PATH})$"
)
REPOSITORY_MESSAGE = "must be https://HOST/PATH, ssh://USER@HOST/PATH or USER@HOST:PATH, without a password"
REVISION = r"^([0-9a-f]{40}|[0-9a-f]{64})$"
REVISION_MESSAGE = (
    "must be a full commit hash of 40 or 64 digits, as printed by `git rev-parse HEAD`; "
    "a branch or tag could move between attempts"
)


def _matching(pattern: str, message: str) -> Any:
    """Validates a pattern. Also a CEL rule, not the schema's pattern, so that the rejection has a clear message."""

    def check(text: str) -> str:
        # `$` alone also matches before a newline at the end.
        if not re.fullmatch(pattern, text):
            raise ValueError(message)
        return text

    return AfterValidator(check)


class GitSource(Model):
    """User code from a commit of a git repository, fetched by an init container of each pod."""

    model_config = checked(
        (
            ".secretName",
            "has(self.secretName) || self.repository.startsWith('https://')",
            "ssh needs a Secret with a private key, of type kubernetes.io/ssh-auth",
        )
    )
    repository: Annotated[str, _matching(REPOSITORY, REPOSITORY_MESSAGE), AfterValidator(check_segments)] = Field(
        min_length=1,
        max_length=1024,
        description="URL of the repository: https://HOST/PATH, ssh://USER@HOST/PATH or USER@HOST:PATH.",
        json_schema_extra=rules(("", f"self.matches(r'{REPOSITORY}')", REPOSITORY_MESSAGE), NO_DOTS),
    )
    revision: Annotated[str, _matching(REVISION, REVISION_MESSAGE)] = Field(
        min_length=1,
        max_length=64,
        description="Full hash of the commit, so that all attempts run the same code.",
        json_schema_extra=rules(("", f"self.matches(r'{REVISION}')", REVISION_MESSAGE)),
    )
    path: RelativePath | None = optional("Folder of the repository with the modules. Default: its root.")
    secret_name: Name | None = optional(
        "Secret with credentials: username and password, or ssh-privatekey and known_hosts; and ca.crt."
    )
    image: Image | None = optional("Image of the init container, with git and python3. Default: spec.image.")


class ImageSource(Model):
    """User code in a separate image, mounted read-only in each pod (a Kubernetes image volume)."""

    reference: Image = Field(description="The image; its content is mounted, nothing in it is executed.")
    path: RelativePath | None = optional("Folder of the image with the modules. Default: its root.")
    pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = optional(
        "When the image is pulled, as in a pod. imagePullSecrets apply to it as well."
    )


class Source(Model):
    """Where the code of train_func comes from. Default: the image."""

    model_config = checked(exactly_one("inline", "configMap", "git", "image"))
    inline: dict[FileName, Text] | None = optional(
        "File name to content, for example {train.py: ...}. For small code: 32 KiB in total.",
        min_length=1,
        max_length=32,
        json_schema_extra=rules(
            (
                "",
                f"self.map(k, size(bytes(self[k]))).sum() <= {MAX_INLINE_BYTES}",
                "at most 32 KiB in total; put the files into a ConfigMap with `kubectl create configmap NAME "
                "--from-file=FOLDER` and replace source.inline by source.configMap: {name: NAME}",
            )
        ),
    )
    config_map: ConfigMapSource | None = optional(
        "A ConfigMap whose keys are the files; it is copied once, before the first attempt."
    )
    git: GitSource | None = optional("A commit of a git repository.")
    image: ImageSource | None = optional(
        "An image whose files are mounted; Kubernetes 1.35 or newer mounts images by default."
    )
