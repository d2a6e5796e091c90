"""Run the operator: watch TrainJobs and reconcile them."""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from railhead.cli.log_format import FORMATS, set_up_logging
from railhead.contract.log_archive import ARCHIVES, ArchivePolicy
from railhead.kube.selector import EVERYTHING, BadSelector, LabelSelector, parse_selector

if TYPE_CHECKING:
    from railhead.resources.base import JobNetworkPolicy, Peer

SHORTEST_LEASE_SECONDS = 3
RESOLVERS = Path("/etc/resolv.conf")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    kubeconfig = "default: $KUBECONFIG, else the pod's service account"
    parser.add_argument("--kubeconfig", default=os.environ.get("KUBECONFIG"), help=kubeconfig)
    parser.add_argument("--namespace", default="railhead-system", help="namespace of the operator's objects")
    watched = "run the jobs of this namespace only (repeatable; default: all namespaces)"
    parser.add_argument("--watch-namespace", action="append", default=[], metavar="NAMESPACE", help=watched)
    selected = "run the jobs only whose labels match, for example team=a,tier!=test (default: all)"
    parser.add_argument("--job-selector", type=_selector, default=EVERYTHING, metavar="SELECTOR", help=selected)
    _add_reports(parser)
    probes = "/healthz and /readyz (default: %(default)s, every IPv4 and IPv6 address)"
    parser.add_argument("--probe-listen", type=_listen, default=":8080", metavar="HOST:PORT", help=probes)
    metrics = "/metrics over HTTPS, for tokens with the right to get it (default: open, on the probe port)"
    parser.add_argument("--metrics-listen", type=_listen, metavar="HOST:PORT", help=metrics)
    parser.add_argument("--concurrency", type=int, default=40, help="jobs reconciled concurrently")
    _add_leader_election(parser)
    _add_network_policies(parser)
    _add_log_archive(parser)
    _add_objects(parser)
    policy = "warn if this ValidatingAdmissionPolicy, which restricts what jobs may use, is gone"
    parser.add_argument("--admission-policy", default="", metavar="NAME", help=policy)
    parser.add_argument("--kueue", action="store_true", help="jobs may name a queue of Kueue (default: they wait then)")
    parser.add_argument("--log-level", default="INFO", choices=["DEBUG", "INFO", "WARNING", "ERROR"])
    parser.add_argument("--log-format", default="text", choices=FORMATS, help="json: one object per line")


def _add_reports(parser: argparse.ArgumentParser) -> None:
    reports = "report endpoint (default: %(default)s)"
    parser.add_argument("--report-listen", type=_listen, default=":8443", metavar="HOST:PORT", help=reports)
    parser.add_argument("--report-url", required=True, metavar="URL", help="base URL of the endpoint, as pods reach it")
    tls = "with the endpoint's tls.crt, tls.key and ca.crt, as in a cert-manager Secret (default: create them)"
    parser.add_argument("--report-tls", type=Path, metavar="FOLDER", help=tls)
    writes = "status writes for the reports of all jobs; each stores a TrainJob in etcd again (default: %(default)s)"
    parser.add_argument("--report-writes-per-second", type=_rate, default=25.0, metavar="NUMBER", help=writes)


def _add_leader_election(parser: argparse.ArgumentParser) -> None:
    lease = "plan only while holding the Lease in the operator's namespace"
    parser.add_argument("--leader-election", action="store_true", help=lease)
    seconds = "with --leader-election: time from the leader's last renewal until another replica takes over"
    parser.add_argument("--lease-seconds", type=_lease_seconds, default=15, metavar="SECONDS", help=seconds)
    uid = (
        "with --leader-election: uid of the pod that runs only this operator; it takes over at once from a process of "
        "the same pod that died"
    )
    parser.add_argument("--pod-uid", default="", metavar="UID", help=uid)


def _add_network_policies(parser: argparse.ArgumentParser) -> None:
    created = "create a NetworkPolicy for each job, which lets only its own pods reach its pods (default: yes)"
    yes_or_no = argparse.BooleanOptionalAction
    parser.add_argument("--job-network-policies", action=yes_or_no, default=True, help=created)
    ingress = "a list of NetworkPolicyPeer that reach the jobs' pods as well"
    parser.add_argument("--job-ingress-from", type=_objects, default=(), metavar="JSON", help=ingress)
    metrics = "a list of NetworkPolicyPeer that reach the port of spec.metrics (default: only the job's own pods do)"
    parser.add_argument("--job-metrics-from", type=_objects, default=(), metavar="JSON", help=metrics)
    egress = (
        "a list of NetworkPolicyEgressRule: jobs reach these, their own pods, DNS and the report endpoint "
        "(default: anything)"
    )
    parser.add_argument("--job-egress", type=_objects, default=(), metavar="JSON", help=egress)
    dns = (
        "with --job-egress, a list of NetworkPolicyPeer that answer DNS (default: the DNS pods of kube-system and "
        "openshift-dns, NodeLocal DNSCache, and the servers of the operator's own resolv.conf)"
    )
    parser.add_argument("--job-dns-to", type=_objects, default=(), metavar="JSON", help=dns)
    ports = "ports at which they listen (default: 53,5353)"
    parser.add_argument("--job-dns-ports", type=_ports, default=(53, 5353), metavar="PORTS", help=ports)
    ambient = "let the tunnels of a service mesh in ambient mode in (port 15008), besides the ports themselves"
    parser.add_argument("--ambient-mesh", action="store_true", help=ambient)


def _add_log_archive(parser: argparse.ArgumentParser) -> None:
    archive = "spec.logs.archive of jobs without it (default: Failed if run.storagePath is a path, else None)"
    parser.add_argument("--job-log-archive", choices=ARCHIVES, help=archive)
    most = "what spec.logs.archive is reduced to in jobs that keep more (default: %(default)s)"
    parser.add_argument("--job-log-archive-most", choices=ARCHIVES, default="All", help=most)


def _listen(text: str) -> str:
    """Raises ArgumentTypeError."""
    from railhead.controller.config import split_address

    try:
        split_address(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def _add_objects(parser: argparse.ArgumentParser) -> None:
    labels = "an object: labels of everything that the operator creates, for jobs and for itself"
    parser.add_argument("--common-labels", type=_labels, default={}, metavar="JSON", help=labels)
    annotations = "the same for annotations"
    parser.add_argument("--common-annotations", type=_texts, default={}, metavar="JSON", help=annotations)
    user = (
        "spec.podUser of jobs without it: Fixed (user, group and fsGroup 1000), or Cluster (the cluster's admission "
        "chooses, as on OpenShift; default: %(default)s)"
    )
    parser.add_argument("--job-pod-user", choices=("Fixed", "Cluster"), default="Fixed", help=user)


def _texts(text: str) -> Mapping[str, str]:
    """Raises ArgumentTypeError."""
    try:
        found = json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not JSON ({error})") from None
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise argparse.ArgumentTypeError(f"{text!r} is not an object whose values are strings")
    for key in found:
        if key.startswith("railhead.dev/"):
            raise argparse.ArgumentTypeError(f"{key} is a key of Railhead's own")
    return found


def _labels(text: str) -> Mapping[str, str]:
    """Raises ArgumentTypeError."""
    found = _texts(text)
    for key in found:
        if key.startswith("app.kubernetes.io/"):
            raise argparse.ArgumentTypeError(f"{key} is a label of Railhead's own")
    return found


def _objects(text: str) -> tuple[Peer, ...]:
    """Raises ArgumentTypeError."""
    try:
        found = json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not JSON ({error})") from None
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of objects")
    return tuple(found)


def _ports(text: str) -> tuple[int, ...]:
    """Raises ArgumentTypeError."""
    ports = text.split(",")
    if not all(port.isascii() and port.isdigit() and 1 <= int(port) <= 65535 for port in ports):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of ports, such as 53,5353")
    return tuple(int(port) for port in ports)


def _lease_seconds(text: str) -> int:
    """Returns a number of seconds that is long enough for a request to complete. Raises ArgumentTypeError."""
    if not text.isdigit() or int(text) < SHORTEST_LEASE_SECONDS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least {SHORTEST_LEASE_SECONDS}")
    return int(text)


def _rate(text: str) -> float:
    """Raises ArgumentTypeError."""
    try:
        rate = float(text)
    except ValueError:
        rate = 0.0
    if not 0.1 <= rate <= 10_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0.1 to 10000")
    return rate


def _selector(text: str) -> LabelSelector:
    """Raises ArgumentTypeError."""
    try:
        return parse_selector(text)
    except BadSelector as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def read_network_policy(options: argparse.Namespace) -> JobNetworkPolicy | None:
    """Returns what the NetworkPolicy of each job allows; None = there is none."""
    from railhead.controller.config import split_address
    from railhead.resources.base import JobNetworkPolicy
    from railhead.resources.network import build_dns_peers

    if not options.job_network_policies:
        return None
    return JobNetworkPolicy(
        extra_from=options.job_ingress_from,
        metrics_from=options.job_metrics_from,
        egress=options.job_egress,
        operator_namespace=options.namespace,
        report_port=split_address(options.report_listen).port,
        dns_to=options.job_dns_to or build_dns_peers(read_resolvers()),
        dns_ports=options.job_dns_ports,
        is_ambient=options.ambient_mesh,
    )


def read_resolvers(file: Path = RESOLVERS) -> list[str]:
    """Returns the addresses of the DNS servers that this pod asks, but for those of the pod itself."""
    try:
        lines = file.read_text(errors="replace").splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        words = line.split()
        if len(words) > 1 and words[0] == "nameserver" and is_server(words[1]):
            found.append(words[1])
    return found


def is_server(text: str) -> bool:
    """Returns whether the text is an address that a NetworkPolicy can name: a loopback or scoped one says nothing of
    jobs."""
    try:
        address = ip_address(text)
    except ValueError:
        return False
    return not address.is_loopback and "%" not in text


def _exit(*_: object) -> NoReturn:
    raise SystemExit(0)


def do_operator(options: argparse.Namespace) -> int:
    # Process 1 of a container ignores SIGTERM unless it has a handler; the event loop installs its own later.
    signal.signal(signal.SIGTERM, _exit)
    if options.kubeconfig:
        # kopf logs in by itself, and takes the kubeconfig from here.
        os.environ["KUBECONFIG"] = options.kubeconfig
    import asyncio

    from railhead.controller.app import run_operator
    from railhead.controller.config import OperatorConfig
    from railhead.controller.installation import WrongDefinition
    from railhead.controller.report.certificate import BadFolder
    from railhead.controller.watch_guard import WentBack
    from railhead.resources.base import CommonMetadata

    set_up_logging(options.log_format, level=options.log_level)
    lease_seconds = None
    if options.leader_election:
        lease_seconds = options.lease_seconds
    config = OperatorConfig(
        kubeconfig=options.kubeconfig,
        namespace=options.namespace,
        watch_namespaces=tuple(options.watch_namespace),
        job_selector=options.job_selector,
        report_listen=options.report_listen,
        report_url=options.report_url,
        probe_listen=options.probe_listen,
        concurrency=options.concurrency,
        lease_seconds=lease_seconds,
        pod_uid=options.pod_uid,
        job_network_policy=read_network_policy(options),
        report_writes=options.report_writes_per_second,
        report_tls=options.report_tls,
        admission_policy=options.admission_policy,
        metrics_listen=options.metrics_listen,
        uses_kueue=options.kueue,
        archive_policy=ArchivePolicy(options.job_log_archive, options.job_log_archive_most),
        common_metadata=CommonMetadata(options.common_labels, options.common_annotations),
        pod_user=options.job_pod_user,
    )
    try:
        asyncio.run(run_operator(config))
    except (BadFolder, WentBack, WrongDefinition) as error:
        logging.getLogger("railhead").error("%s", error)
        return 1
    return 0
