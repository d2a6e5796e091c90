"""What the builders of all children start from: the operator's settings, the job, and the metadata that follows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from railhead.api import names
from railhead.api.base import Object
from railhead.contract.log_archive import BY_STORAGE, ArchivePolicy

Peer = Mapping[str, object]


@dataclass(frozen=True)
class JobNetworkPolicy:
    """What the NetworkPolicy of each job allows.

    Attributes:
        extra_from: NetworkPolicyPeers that reach the job's pods, besides these themselves.
        metrics_from: those that reach the port of spec.metrics only.
        egress: NetworkPolicyEgressRules, besides the job's pods, DNS and the report endpoint; empty = anywhere.
        operator_namespace, report_port: where the report endpoint is.
    """

    extra_from: tuple[Peer, ...] = ()
    metrics_from: tuple[Peer, ...] = ()
    egress: tuple[Peer, ...] = ()
    operator_namespace: str = ""
    report_port: int = 0


@dataclass(frozen=True)
class OperatorSettings:
    """The values that are fixed at the operator's start.

    Attributes:
        report_url: base URL of the report endpoint, as pods reach it.
        report_ca: PEM of the CA that signs the endpoint's certificate.
        bundle: the driver's zipapp.
        bundle_name: name of the ConfigMap that carries it in each namespace.
        token_key: secret; the tokens of all Ray clusters, and names that cannot be guessed, follow from it.
        job_network_policy: of each job; None = jobs get no NetworkPolicy.
        job_selector: by labels, which jobs it runs; "" = all.
        archive_policy: for logs.archive of all jobs.
    """

    report_url: str
    report_ca: str
    bundle: bytes
    bundle_name: str
    token_key: bytes = field(repr=False)
    job_network_policy: JobNetworkPolicy | None = None
    job_selector: str = ""
    archive_policy: ArchivePolicy = BY_STORAGE


@dataclass(frozen=True)
class JobRef:
    """The TrainJob, as its children refer to it."""

    namespace: str
    name: str
    uid: str


def build_metadata(job: JobRef, name: str, **labels: str) -> Object:
    """Returns the metadata of a child: garbage collection removes it with the job, even while no operator runs."""
    owner = build_owner(names.API_VERSION, names.KIND, job.name, job.uid)
    return {
        "name": name,
        "namespace": job.namespace,
        "labels": {**names.child_labels(job.name, job.uid), **labels},
        "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
    }


def build_shared_metadata(namespace: str, name: str) -> Object:
    """Returns the metadata of an object that belongs to all jobs of a namespace; none owns it."""
    labels = {"app.kubernetes.io/name": "railhead", "app.kubernetes.io/managed-by": "railhead"}
    return {"name": name, "namespace": namespace, "labels": labels}


def build_immutable(kind: Literal["ConfigMap", "Secret"], metadata: Object, **content: object) -> Object:
    """Returns an object that never changes: a pod mounts what was there when its attempt began."""
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, "immutable": True, **content}


def build_owner(api_version: str, kind: str, name: str, uid: str) -> Object:
    """Returns an ownerReference: garbage collection deletes the child with its last owner."""
    return {"apiVersion": api_version, "kind": kind, "name": name, "uid": uid}
