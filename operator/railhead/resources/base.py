"""What the builders of all children start from: the operator's settings, the job, and the metadata that follows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from railhead.api import names
from railhead.api.child_metadata import ChildMetadata
from railhead.api.spec import PodUser
from railhead.contract.log_archive import BY_STORAGE, ArchivePolicy
from railhead.json_object import Object

Peer = Mapping[str, object]


@dataclass(frozen=True)
class JobNetworkPolicy:
    """What the NetworkPolicy of each job allows.

    Attributes:
        extra_from: NetworkPolicyPeers that reach the job's pods, besides these themselves.
        metrics_from: those that reach the port of spec.metrics only.
        egress: NetworkPolicyEgressRules, besides the job's pods, DNS and the report endpoint; empty = anywhere.
        operator_namespace, report_port: where the report endpoint is.
        dns_to: with `egress`, NetworkPolicyPeers that answer DNS; empty = any address.
        dns_ports: where they listen, once a Service's port is translated.
        is_ambient: a service mesh without sidecars tunnels connections to pods.
    """

    extra_from: tuple[Peer, ...] = ()
    metrics_from: tuple[Peer, ...] = ()
    egress: tuple[Peer, ...] = ()
    operator_namespace: str = ""
    report_port: int = 0
    dns_to: tuple[Peer, ...] = ()
    dns_ports: tuple[int, ...] = (53, 5353)
    is_ambient: bool = False


@dataclass(frozen=True)
class CommonMetadata:
    """Labels and annotations that are on every object which the operator makes; Railhead's own labels win."""

    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)

    def with_those_of(self, job: ChildMetadata | None) -> CommonMetadata:
        """Returns them with those of the job's spec, which win."""
        if job is None:
            return self
        labels = {**self.labels, **(job.labels or {})}
        return CommonMetadata(labels, {**self.annotations, **(job.annotations or {})})


NO_METADATA = CommonMetadata()


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
        common_metadata: of all objects that it makes.
        pod_user: spec.podUser of jobs without it.
    """

    report_url: str
    report_ca: str
    bundle: bytes
    bundle_name: str
    token_key: bytes = field(repr=False)
    job_network_policy: JobNetworkPolicy | None = None
    job_selector: str = ""
    archive_policy: ArchivePolicy = BY_STORAGE
    common_metadata: CommonMetadata = NO_METADATA
    pod_user: PodUser = "Fixed"


@dataclass(frozen=True)
class JobRef:
    """The TrainJob, as its children refer to it.

    Attributes:
        metadata: of all its children.
        run_name: of its run; "" = by default.
        former_uids: of the TrainJobs that it was restored from.
    """

    namespace: str
    name: str
    uid: str
    metadata: CommonMetadata = NO_METADATA
    run_name: str = ""
    former_uids: tuple[str, ...] = ()


def build_metadata(job: JobRef, name: str, **labels: str) -> Object:
    """Returns the metadata of a child: garbage collection removes it with the job, even while no operator runs."""
    owner = build_owner(names.API_VERSION, names.KIND, job.name, job.uid)
    own = {**names.DEFAULT_LABELS, **job.metadata.labels, **names.child_labels(job.name, job.uid), **labels}
    return {
        "name": name,
        "namespace": job.namespace,
        "labels": own,
        **build_annotations(job.metadata),
        "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
    }


def build_shared_metadata(namespace: str, name: str, common: CommonMetadata = NO_METADATA) -> Object:
    """Returns the metadata of an object that belongs to no job: it is the operator's own, or all jobs share it."""
    labels = {**common.labels, "app.kubernetes.io/name": "railhead", names.MANAGED_BY: "railhead"}
    return {"name": name, "namespace": namespace, "labels": labels, **build_annotations(common)}


def build_annotations(common: CommonMetadata) -> Object:
    """Returns the field, or nothing without any."""
    if not common.annotations:
        return {}
    return {"annotations": dict(common.annotations)}


def build_immutable(kind: Literal["ConfigMap", "Secret"], metadata: Object, **content: object) -> Object:
    """Returns an object that never changes: a pod mounts what was there when its attempt began."""
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, "immutable": True, **content}


def build_owner(api_version: str, kind: str, name: str, uid: str) -> Object:
    """Returns an ownerReference: garbage collection deletes the child with its last owner."""
    return {"apiVersion": api_version, "kind": kind, "name": name, "uid": uid}
