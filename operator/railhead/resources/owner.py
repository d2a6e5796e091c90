"""A reference to the TrainJob that owns a child, and the child's metadata derived from it."""

from __future__ import annotations

from dataclasses import dataclass

from railhead.api import names
from railhead.api.base import Object


@dataclass(frozen=True)
class JobRef:
    """The TrainJob, as its children refer to it."""

    namespace: str
    name: str
    uid: str


def build_metadata(job: JobRef, name: str, **labels: str) -> Object:
    """Metadata of a child: garbage collection removes it with the job, even while no operator runs."""
    return {
        "name": name,
        "namespace": job.namespace,
        "labels": {**names.child_labels(job.name, job.uid), **labels},
        "ownerReferences": [{**build_owner(names.API_VERSION, names.KIND, job.name, job.uid), **_CONTROLLER}],
    }


def build_shared_metadata(namespace: str, name: str) -> Object:
    """Metadata of an object of all jobs of a namespace, which none owns."""
    labels = {"app.kubernetes.io/name": "railhead", "app.kubernetes.io/managed-by": "railhead"}
    return {"name": name, "namespace": namespace, "labels": labels}


def build_owner(api_version: str, kind: str, name: str, uid: str) -> Object:
    """An ownerReference: garbage collection deletes the child with its last owner."""
    return {"apiVersion": api_version, "kind": kind, "name": name, "uid": uid}


_CONTROLLER = {"controller": True, "blockOwnerDeletion": True}
