"""The operator's own contribution to the children of every job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Peer = Mapping[str, object]


@dataclass(frozen=True)
class JobNetworkPolicy:
    """What the NetworkPolicy of each job allows.

    Attributes:
        extra_from: NetworkPolicyPeers that reach the job's pods, besides these themselves.
        egress: NetworkPolicyEgressRules, besides the job's pods, DNS and the report endpoint; empty = anywhere.
        operator_namespace, report_port: where the report endpoint is.
    """

    extra_from: tuple[Peer, ...] = ()
    egress: tuple[Peer, ...] = ()
    operator_namespace: str = ""
    report_port: int = 0


@dataclass(frozen=True)
class OperatorSettings:
    """Values fixed at the operator's start.

    Attributes:
        report_url: base URL of the report endpoint, as pods reach it.
        report_ca: PEM of the CA that signs the endpoint's certificate.
        bundle: the driver's zipapp.
        bundle_name: name of the ConfigMap that carries it in each namespace.
        token_key: secret; the tokens of all Ray clusters, and names that nobody else can guess, follow from it.
        job_network_policy: of each job; None = jobs get no NetworkPolicy.
        job_selector: by labels, which jobs it runs; "" = all.
    """

    report_url: str
    report_ca: str
    bundle: bytes
    bundle_name: str
    token_key: bytes = field(repr=False)
    job_network_policy: JobNetworkPolicy | None = None
    job_selector: str = ""
