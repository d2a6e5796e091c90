"""Raw objects as the API server sends them: TrainJobs and their pods."""

from __future__ import annotations

from typing import Any

from railhead.api import names
from tests.unit.builders import SPEC, UID

Object = dict[str, Any]
JOB_OWNER = {"apiVersion": names.API_VERSION, "kind": names.KIND, "uid": UID, "controller": True}


def make_job(version: int = 1, *, name: str = "digits", uid: str = UID, generation: int = 1, **changes: Any) -> Object:
    """A TrainJob; keyword arguments replace its top-level fields, except that `metadata` is merged."""
    metadata = {"namespace": "default", "name": name, "uid": uid, "generation": generation}
    metadata |= {"resourceVersion": str(version), **changes.pop("metadata", {})}
    return {"kind": names.KIND, "metadata": metadata, "spec": dict(SPEC), **changes}


def make_pod(name: str = "head", *, owner: str | None = UID, status: Object | None = None, **metadata: Any) -> Object:
    """A pod of the job with this uid, or without an owner."""
    owners = [{**JOB_OWNER, "uid": owner}] if owner else []
    labels = {names.LABEL_ROLE: names.HEAD, names.LABEL_ATTEMPT: "1"}
    defaults = {"namespace": "default", "name": name, "uid": f"uid-{name}", "labels": labels, "ownerReferences": owners}
    return {"metadata": {**defaults, **metadata}, "spec": {"nodeName": "node-1"}, "status": status or {}}


def make_container(*, name: str = names.CONTAINER, **state: Any) -> Object:
    """A container's status: `running={...}`, `waiting={...}` or `terminated={...}`."""
    return {"name": name, "state": state}
