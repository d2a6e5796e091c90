"""TrainJobs as a user writes them: the smallest one, changed at dotted paths."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

PATH = "/apis/railhead.dev/v1alpha1/namespaces/default/trainjobs"
ABSENT = object()
SMALLEST: dict[str, Any] = {
    "apiVersion": "railhead.dev/v1alpha1",
    "kind": "TrainJob",
    "metadata": {"name": "digits", "namespace": "default"},
    "spec": {
        "image": "registry.example/digits:1",
        "trainer": {"trainFunc": "digits:train_func"},
        "run": {"storagePath": "/runs"},
    },
}


def make_job(changes: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The smallest job with values set at paths such as `spec.scaling.numWorkers`; ABSENT removes a field."""
    job = copy.deepcopy(SMALLEST)
    for path, value in (changes or {}).items():
        *parents, last = path.split(".")
        target = job
        for part in parents:
            target = target.setdefault(part, {})
        if value is ABSENT:
            target.pop(last)
        else:
            target[last] = copy.deepcopy(value)
    return job
