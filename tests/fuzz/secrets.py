"""A job with a marked secret in every field and variable that may have one, and where they must not appear."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from typing import Any

from tests.fuzz.mutate import Object

MARK = "s3cr3t"


def _mark(place: str) -> str:
    return f"{MARK}-{place}"


def _template(place: str) -> Object:
    env = [{"name": "AWS_SECRET_ACCESS_KEY", "value": _mark(f"{place}.env")}]
    init = {"name": "setup", "image": "busybox", "command": ["sh", "-c", _mark(f"{place}.command")], "env": env}
    spec = {"containers": [{"name": "ray", "env": env}], "initContainers": [init]}
    return {"metadata": {"annotations": {"example.com/token": _mark(f"{place}.annotation")}}, "spec": spec}


SPEC: Object = {
    "image": "example/train:1",
    "trainer": {
        "trainFunc": "train:train_func",
        "trainLoopConfig": {"password": _mark("trainLoopConfig"), "deep": [{"token": _mark("trainLoopConfig.deep")}]},
    },
    "scaling": {"numWorkers": 2},
    "run": {"storagePath": "s3://bucket/runs"},
    "source": {"inline": {"train.py": f"TOKEN = '{_mark('inline')}'"}},
    "env": [{"name": "WANDB_API_KEY", "value": _mark("env")}],
    "envFrom": [{"secretRef": {"name": "credentials"}}],
    "runtimeEnv": {
        "env_vars": {"HF_TOKEN": _mark("env_vars")},
        "pip": [f"git+https://user:{_mark('pip')}@git.example/a.git"],
        "working_dir": f"https://user:{_mark('working_dir')}@files.example/a.zip",
    },
    "podTemplate": _template("podTemplate"),
    "head": {"podTemplate": _template("head")},
    "worker": {"podTemplate": _template("worker")},
}
METADATA: Object = {
    "annotations": {"example.com/token": _mark("annotation"), "kubectl.kubernetes.io/last-applied": _mark("applied")}
}


class Pages(logging.Handler):
    """All that is logged, with tracebacks."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.text = ""
        self.setFormatter(logging.Formatter("%(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        self.text += self.format(record) + "\n"


def find_secrets(texts: Iterable[Any], *secrets: str) -> list[str]:
    """The texts and objects that contain one of them."""
    found = (each if isinstance(each, str) else json.dumps(each) for each in texts)
    return [text[:2000] for text in found if any(secret in text for secret in secrets)]
