"""What the operator is started with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class OperatorConfig:
    """Command line and environment of one operator process.

    Attributes:
        kubeconfig: path, or None for the pod's own service account.
        namespace: where the operator keeps its own Secret and Lease.
        watch_namespaces: namespaces whose TrainJobs are run; empty = all.
        report_listen: host:port of the report endpoint.
        report_url: its base URL, as head pods reach it.
        probe_listen: host:port of /healthz and /readyz.
        concurrency: passes at a time.
        lease_seconds: how long one renewal of the Lease lasts; None = no election, this operator is the only one.
        job_network_policies: make a NetworkPolicy for each job.
        report_tls: folder with the endpoint's certificate and its CA; None = the operator makes its own.
    """

    kubeconfig: str | None
    namespace: str
    watch_namespaces: tuple[str, ...]
    report_listen: str
    report_url: str
    probe_listen: str
    concurrency: int = 8
    lease_seconds: int | None = None
    job_network_policies: bool = False
    report_tls: Path | None = None


def split_address(text: str) -> tuple[str, int]:
    """host:port. Raises ValueError in words."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit():
        raise ValueError(f"{text!r} is not host:port")
    return host or "0.0.0.0", int(port)
