"""Whether a cluster is ready for TrainJobs: what each part of it, as the API server returns it, means. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from railhead._version import __version__
from railhead.api import names
from railhead.api.scaling import is_gpu
from railhead.client.cluster.job_rows import UNSEEN, JobRow
from railhead.contract.times import parse_time
from railhead.json_object import Object, part, parts, text

OK = "ok"
WARNING = "warning"
ERROR = "error"
NOT_PERMITTED = "not permitted"
OLDEST_MINOR = 31  # of Kubernetes; docs/operate/requirements.md
VERSION_LABEL = "app.kubernetes.io/version"
DEFAULT_QUEUE = "Default queue"
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
POD_SECURITY = "pod-security.kubernetes.io/enforce"
# A Lease has the time of the operator's machine.
CLOCKS_DIFFER_SECONDS = 60
SEEN_WITHIN_SECONDS = 60
NAMED = 5  # of a list in a sentence
# DaemonSets of network plugins that enforce NetworkPolicies in every configuration, and one that never does.
ENFORCING = ("antrea-agent", "calico-node", "canal", "cilium", "kindnet", "kube-router", "ovnkube-node", "weave-net")
NOT_ENFORCING = ("kube-flannel-ds",)
# Of a node with GPUs, by GPU feature discovery, by node feature discovery and by two clouds.
GPU_LABELS = (
    "nvidia.com/gpu.present",
    "feature.node.kubernetes.io/pci-10de.present",
    "cloud.google.com/gke-accelerator",
    "k8s.amazonaws.com/accelerator",
)


@dataclass(frozen=True)
class Check:
    """What one check found.

    Attributes:
        level: OK, WARNING, ERROR or NOT_PERMITTED.
        message: a sentence.
        remedy: what to do about it; "" where there is nothing to do.
    """

    subject: str
    level: str
    message: str
    remedy: str = ""


@dataclass(frozen=True)
class NodeGPUs:
    """The GPUs of one node.

    Attributes:
        offered: the allocatable GPUs by resource, without those at 0.
        is_marked: whether a label or its capacity says that the node has GPUs.
    """

    name: str
    offered: tuple[tuple[str, int], ...]
    is_marked: bool


def judge_kubernetes(version: Object) -> Check:
    """Takes the answer of /version."""
    minor = text(version, "minor").rstrip("+")
    found = f"Kubernetes {text(version, 'gitVersion')}"
    if not minor.isdigit() or int(minor) >= OLDEST_MINOR:
        return Check("Kubernetes", OK, f"{found} answers.")
    return Check("Kubernetes", ERROR, f"{found} is older than 1.{OLDEST_MINOR}.", "Upgrade the cluster.")


def judge_definition(narrower: str, version: str) -> Check:
    """Takes where the served CRD is narrower than this client's, and the CRD's version, "" if it is not known."""
    crd = f"The CRD {names.PLURAL}.{names.GROUP}" + (f" of Railhead {version}" if version else "")
    if narrower:
        message = f"{crd} lacks what this command line, {__version__}, may send: {narrower}."
        remedy = "Upgrade Railhead in the cluster, or use the command line of its version."
        return Check("CRD", WARNING, message, remedy)
    return Check("CRD", OK, f"{crd} is served, and accepts all that Railhead {__version__} knows.")


def judge_operator(deployments: Sequence[Object], *, has_seen_jobs: bool, is_local: bool = False) -> Check:
    """Takes the Deployments with the operator's labels."""
    if not deployments and is_local:
        message = "Local mode runs the operator as a process of this machine; `railhead local status` shows it."
        return Check("Operator", OK, message)
    if not deployments:
        message = "No Deployment has the labels of Railhead's operator"
        if has_seen_jobs:
            return Check("Operator", WARNING, f"{message}, but an operator has written the status of TrainJobs here.")
        return Check("Operator", ERROR, f"{message}.", "Install the chart (docs/operate/install.md).")
    down = []
    described = []
    versions = set()
    for each in deployments:
        metadata = part(each, "metadata")
        status = part(each, "status")
        place = f"{text(metadata, 'namespace')}/{text(metadata, 'name')}"
        versions.add(text(part(metadata, "labels"), VERSION_LABEL))
        ready = status.get("readyReplicas") or 0
        described.append(f"{place} {text(part(metadata, 'labels'), VERSION_LABEL)} has {ready} ready pods")
        if not ready:
            down.append(place)
    message = f"{_some(described)}."
    if down:
        namespace, _, name = down[0].partition("/")
        return Check("Operator", ERROR, message, f"Run `kubectl -n {namespace} describe deployment {name}`.")
    if versions != {__version__}:
        remedy = f"Use the command line of the operator's version; this one is of {__version__}."
        return Check("Operator", WARNING, message, remedy)
    return Check("Operator", OK, message)


def judge_leader(leases: Sequence[Object], now: datetime) -> Check:
    """Takes the Leases with Railhead's label; any that is held and renewed is a living leader."""
    if not leases:
        return Check("Leader", WARNING, "There is no Lease of Railhead, as with leaderElection.enabled=false.")
    found = []
    for lease in leases:
        spec = part(lease, "spec")
        place = text(part(lease, "metadata"), "namespace")
        holder = text(spec, "holderIdentity")
        renewed = parse_time(text(spec, "renewTime"))
        seconds = spec.get("leaseDurationSeconds")
        limit = timedelta(seconds=(seconds if isinstance(seconds, int) else 0) + CLOCKS_DIFFER_SECONDS)
        if not holder:
            found.append(f"The Lease in namespace {place} is free")
        elif renewed is None or now - renewed > limit:
            found.append(f"{holder} last renewed the Lease in namespace {place} at {text(spec, 'renewTime')}")
        else:
            return Check("Leader", OK, f"{holder} leads in namespace {place}.")
    remedy = "Read the log of the operator's pods; if it has none, see the check of the operator."
    return Check("Leader", ERROR, f"{_some(found)}.", remedy)


def is_local(node: Object) -> bool:
    """Returns whether the node is that of local mode."""
    return text(part(part(node, "status"), "nodeInfo"), "kubeletVersion").endswith("-railhead-local")


def judge_jobs(jobs: Sequence[JobRow], now: datetime, place: str) -> Check:
    """Takes the TrainJobs of the place; a job without a phase for a minute has no operator."""
    unseen = [job for job in jobs if job.phase == UNSEEN]
    limit = timedelta(seconds=SEEN_WITHIN_SECONDS)
    late = [job.name for job in unseen if (at := parse_time(job.created)) is not None and now - at > limit]
    if late:
        remedy = "Start the operator, or let its watchNamespaces and jobSelector include them."
        return Check("TrainJobs", ERROR, f"No operator has seen {_some(late)} in {place}.", remedy)
    new = f"; {len(unseen)} more are younger than a minute" if unseen else ""
    return Check("TrainJobs", OK, f"An operator has seen {len(jobs) - len(unseen)} TrainJobs in {place}{new}.")


def judge_rights(denied_reads: Sequence[str], denied_writes: Sequence[str], namespace: str) -> Check:
    """Takes the verbs with their resources that the user may not use."""
    missing = [*denied_reads, *denied_writes]
    if not missing:
        return Check("Rights", OK, f"You may read and change TrainJobs in namespace {namespace}.")
    level, role = (ERROR, "view") if denied_reads else (WARNING, "edit")
    message = f"In namespace {namespace} you may not {_some(missing)}."
    return Check("Rights", level, message, f"Ask an administrator for the cluster role {role} in this namespace.")


def judge_storage(classes: Sequence[Object]) -> Check:
    """Takes the StorageClasses."""
    described = [part(each, "metadata") for each in classes]
    found = [text(each, "name") for each in described if part(each, "annotations").get(DEFAULT_CLASS) == "true"]
    if found:
        return Check("Storage", OK, f"The default StorageClass is {_some(found)}.")
    message = f"None of the {len(classes)} StorageClasses is the default."
    return Check("Storage", WARNING, message, "Set storageClassName in claims, or use object storage.")


def read_gpus(node: Object) -> NodeGPUs:
    """Returns what is kept of a node."""
    metadata = part(node, "metadata")
    status = part(node, "status")
    offered = {
        name: int(amount)
        for name, amount in part(status, "allocatable").items()
        if is_gpu(name) and str(amount).isdigit() and int(amount)
    }
    labels = part(metadata, "labels")
    is_marked = any(labels.get(label, "false") != "false" for label in GPU_LABELS)
    is_marked = is_marked or any(map(is_gpu, part(status, "capacity")))
    return NodeGPUs(text(metadata, "name"), tuple(sorted(offered.items())), is_marked)


def judge_gpus(nodes: Sequence[NodeGPUs]) -> Check:
    """Takes all nodes."""
    totals: dict[str, int] = {}
    for node in nodes:
        for name, amount in node.offered:
            totals[name] = totals.get(name, 0) + amount
    offering = sum(bool(node.offered) for node in nodes)
    found = f"{offering} of {len(nodes)} nodes offer GPUs"
    found += f": {', '.join(f'{amount} {name}' for name, amount in sorted(totals.items()))}" if totals else ""
    silent = [node.name for node in nodes if node.is_marked and not node.offered]
    if silent:
        message = f"{found}, but {_some(silent)} {'has' if len(silent) == 1 else 'have'} GPUs and offer none."
        return Check("GPUs", WARNING, message, "Look at the pods of the GPU device plugin on these nodes.")
    if not totals:
        return Check("GPUs", WARNING, f"{found}.", "Install the device plugin of your GPUs, if jobs need GPUs.")
    return Check("GPUs", OK, f"{found}.")


def judge_pod_security(namespace: Object) -> Check:
    """Takes the namespace; the pods of a job without podTemplate pass every level."""
    metadata = part(namespace, "metadata")
    name = text(metadata, "name")
    level = text(part(metadata, "labels"), POD_SECURITY)
    if level in ("baseline", "restricted"):
        return Check("Pod Security", OK, f"Namespace {name} enforces the level {level}.")
    message = f"Namespace {name} enforces no Pod Security level, so a podTemplate may use host access and privileges."
    return Check("Pod Security", WARNING, message, f"Label the namespace {POD_SECURITY}=restricted.")


def judge_network(daemons: Iterable[Object]) -> Check:
    """Takes the DaemonSets of all namespaces: the API server does not tell whether NetworkPolicies are enforced."""
    found = {text(part(each, "metadata"), "name") for each in daemons}
    enforcing = sorted(found & set(ENFORCING))
    not_enforcing = sorted(found & set(NOT_ENFORCING))
    if enforcing:
        return Check("NetworkPolicy", OK, f"The network plugin {_some(enforcing)} enforces NetworkPolicies.")
    if not_enforcing:
        message = f"The network plugin {_some(not_enforcing)} enforces no NetworkPolicy, so other pods reach jobs."
        return Check("NetworkPolicy", WARNING, message, "Use a network plugin that does, if jobs are to be isolated.")
    message = "It is unknown whether the network plugin enforces NetworkPolicies: no known one was found."
    return Check("NetworkPolicy", WARNING, message, "Read the plugin's documentation, if jobs are to be isolated.")


def judge_dns(slices: Sequence[Object]) -> Check:
    """Takes the EndpointSlices of the Service kube-dns, which CoreDNS has as well."""
    ready = sum(
        part(each, "conditions").get("ready") is not False for one in slices for each in parts(one, "endpoints")
    )
    if ready:
        return Check("DNS", OK, f"The Service kube-dns has {ready} ready endpoints.")
    if slices:
        message = "The Service kube-dns has no ready endpoint, so worker pods do not find their head pod."
        return Check("DNS", ERROR, message, "Run `kubectl -n kube-system get pods -l k8s-app=kube-dns`.")
    message = "It is unknown whether DNS works: kube-system has no Service kube-dns."
    return Check("DNS", WARNING, message, "Make sure that pods resolve the names of headless Services.")


def judge_gangs(served: Sequence[str], *, has_kueue: bool) -> Check:
    """Takes the schedulers whose PodGroups are served, with the versions."""
    gangs = "No PodGroup of a gang scheduler is served"
    if served:
        gangs = f"gangScheduler can be {_some(served)}"
    kueue = "Kueue's queues are served" if has_kueue else "Kueue is not installed"
    return Check("Gangs and queues", OK, f"{gangs}; {kueue}.")


def judge_default_queue(*, exists: bool, namespace: str) -> Check:
    """Takes whether the namespace has a LocalQueue named `default`, by which Kueue takes pods that it knows nothing
    of."""
    if not exists:
        return Check(DEFAULT_QUEUE, OK, f"Namespace {namespace} has no LocalQueue named default.")
    message = (
        f"Namespace {namespace} has a LocalQueue named default. Unless an administrator has exempted the pods of "
        "TrainJobs, Kueue holds each of them by itself, also those of jobs with a queue of their own."
    )
    remedy = (
        "Have the LocalQueue renamed, or TrainJobs or the namespace exempted in Kueue's configuration "
        "(docs/how-to/queues.md#exempt-the-pods-of-trainjobs)."
    )
    return Check(DEFAULT_QUEUE, WARNING, message, remedy)


def _some(texts: Sequence[str]) -> str:
    more = f" and {len(texts) - NAMED} more" if len(texts) > NAMED else ""
    return ", ".join(texts[:NAMED]) + more
