"""The operator's startup options."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from railhead.api.spec import PodUser
from railhead.contract.log_archive import BY_STORAGE, ArchivePolicy
from railhead.kube.selector import EVERYTHING, LabelSelector
from railhead.resources.base import NO_METADATA, CommonMetadata, JobNetworkPolicy

ADDRESS = re.compile(r"(?:\[(?P<ipv6>[^][]*:[^][]*)\]|(?P<host>[^][:]*)):(?P<port>[0-9]{1,5})")
LAST_PORT = 65535


@dataclass(frozen=True)
class OperatorConfig:
    """Command line and environment of one operator process.

    Attributes:
        kubeconfig: path, or None for the pod's own service account.
        namespace: where the operator keeps its own Secret and Lease.
        watch_namespaces: namespaces whose TrainJobs it runs; empty = all.
        job_selector: by labels, which of them it runs.
        report_listen: host:port of the report endpoint.
        report_url: its base URL, as head pods reach it.
        probe_listen: host:port of /healthz and /readyz, and of /metrics without `metrics_listen`.
        metrics_listen: host:port of /metrics over HTTPS with authentication.
        concurrency: concurrent passes.
        lease_seconds: how long one Lease renewal is valid; None = no leader election, this operator is the only one.
        pod_uid: uid of the pod whose only operator this is; "" = unknown.
        job_network_policy: of each job; None = jobs get none.
        report_writes: status writes per second of this process for the reports of all jobs.
        report_tls: folder with the endpoint's certificate and its CA; None = the operator creates its own.
        archive_policy: for logs.archive of all jobs.
        uses_kueue: jobs may name a queue of Kueue, whose objects this operator may read and write.
        common_metadata: of all objects that the operator makes.
        pod_user: spec.podUser of jobs without it.
        admission_policy: name of the ValidatingAdmissionPolicy that restricts jobs; "" = there is none.
    """

    kubeconfig: str | None
    namespace: str
    watch_namespaces: tuple[str, ...]
    report_listen: str
    report_url: str
    probe_listen: str
    job_selector: LabelSelector = EVERYTHING
    concurrency: int = 40
    lease_seconds: int | None = None
    pod_uid: str = ""
    job_network_policy: JobNetworkPolicy | None = None
    report_writes: float = 25.0
    report_tls: Path | None = None
    archive_policy: ArchivePolicy = BY_STORAGE
    admission_policy: str = ""
    metrics_listen: str | None = None
    uses_kueue: bool = False
    common_metadata: CommonMetadata = NO_METADATA
    pod_user: PodUser = "Fixed"


class Address(NamedTuple):
    """Where a server listens; the host "" stands for every address of the machine."""

    host: str
    port: int


def split_address(text: str) -> Address:
    """Splits `host:port`, `[IPv6]:port` or `:port`. Raises ValueError with a clear message."""
    found = ADDRESS.fullmatch(text)
    if found is None or int(found["port"]) > LAST_PORT:
        raise ValueError(f"{text!r} is not host:port; an IPv6 address goes into brackets, as in [::1]:8080")
    host = found["ipv6"] or found["host"] or ""
    # As programs in Go read it: IPv4 as well.
    if host == "::":
        host = ""
    return Address(host, int(found["port"]))
