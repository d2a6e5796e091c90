"""The operator's own contribution to the children of every job."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class OperatorSettings:
    """Values fixed at the operator's start.

    Attributes:
        report_url: base URL of the report endpoint, as pods reach it.
        report_ca: PEM of the CA that signs the endpoint's certificate.
        bundle: the driver's zipapp.
        bundle_name: name of the ConfigMap that carries it in each namespace.
        token_key: secret; the tokens of all Ray clusters follow from it.
        has_network_policies: each job gets a NetworkPolicy.
        job_selector: by labels, which jobs it runs; "" = all.
    """

    report_url: str
    report_ca: str
    bundle: bytes
    bundle_name: str
    token_key: bytes = field(repr=False)
    has_network_policies: bool = False
    job_selector: str = ""
