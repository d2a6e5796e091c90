"""Names of a job's children, as pure functions of their identity.

This makes creates idempotent: the second create fails on the first one's name. Names of pods and
Services stay within 63 characters, so that they also serve as labels and host names.
"""

from __future__ import annotations

GROUP = "railhead.dev"
VERSION = "v1alpha1"
KIND = "TrainJob"
PLURAL = "trainjobs"
API_VERSION = f"{GROUP}/{VERSION}"
MANAGER = "railhead.dev/operator"

MANAGED_BY = "app.kubernetes.io/managed-by"
# Of every child, unless the user says otherwise.
DEFAULT_LABELS = {"app.kubernetes.io/name": "railhead", "app.kubernetes.io/component": "training"}
LABEL_JOB_NAME = f"{GROUP}/job-name"
LABEL_JOB_UID = f"{GROUP}/job-uid"
LABEL_ROLE = f"{GROUP}/role"
LABEL_ATTEMPT = f"{GROUP}/attempt"
LABEL_SLOT = f"{GROUP}/slot"
LABEL_ROUND = f"{GROUP}/round"
LABEL_READER = f"{GROUP}/reader-of"  # uid of the job whose files the pod reads for `railhead logs` and the like
AVOIDED_NODES = f"{GROUP}/avoided-nodes"  # annotation of a pod

HEAD = "head"
WORKER = "worker"
CONTAINER = "ray"
AUTH_VOLUME = "railhead-auth"  # of each pod, with Ray's token
TOKEN_KEY = "token"  # of its Secret
METRICS_PORT = "metrics"  # of the head's container, with spec.metrics
HEADS_SERVICE = "railhead-heads"  # of each namespace with jobs
FETCH_CONTAINER = "railhead-source"
# Leaves room for an attempt of six digits, a slot of four and a round of four.
MAX_JOB_NAME = 38
MAX_LABEL = 63
MAX_NAME = 253  # of most objects of Kubernetes


def tag(uid: str) -> str:
    """Returns six characters of the uid: a new job with an old name gets its own child names."""
    return uid.replace("-", "")[:6]


def secret_name(job: str, uid: str, digest: str) -> str:
    return f"{job}-{tag(uid)}-auth-{digest}"


def network_policy_name(job: str, uid: str) -> str:
    return f"{job}-{tag(uid)}"


def reader_policy_name(job: str, uid: str) -> str:
    return f"{network_policy_name(job, uid)}-reader"


def gang_name(job: str, uid: str, attempt: int) -> str:
    """Returns the name of the PodGroup of an attempt."""
    return f"{job}-{tag(uid)}-{attempt}"


def workload_name(job: str, uid: str) -> str:
    """Returns the name of the Workload by which Kueue admits the job."""
    return f"{job}-{tag(uid)}"


def input_name(job: str, uid: str, digest: str) -> str:
    return f"{job}-{tag(uid)}-input-{digest}"


def source_name(job: str, uid: str, nonce: str) -> str:
    return f"{job}-{tag(uid)}-source-{nonce}"


def head_name(job: str, uid: str, attempt: int) -> str:
    return f"{job}-{tag(uid)}-{attempt}-head"


def worker_name(job: str, uid: str, *, attempt: int, slot: int, round_: int) -> str:
    """Keeps the numbers and the tag whole: with many digits, after years of lost pods, the job's name is cut."""
    rest = f"-{tag(uid)}-{attempt}-w{slot}-{round_}"
    return f"{job[: MAX_LABEL - len(rest)]}{rest}"


def pod_name(job: str, uid: str, role: str, attempt: int, slot: int, round_: int) -> str:
    """Returns the name of the pod with these labels."""
    if role == HEAD:
        return head_name(job, uid, attempt)
    return worker_name(job, uid, attempt=attempt, slot=slot, round_=round_)


def head_host(job: str, uid: str, attempt: int) -> str:
    """Returns the DNS name of one attempt's head within its namespace; each attempt has its own.

    As short as possible: a resolver finds it with its first search domain, where `....namespace.svc` would be the
    third, and each domain costs two queries of every worker pod.
    """
    return f"{head_name(job, uid, attempt)}.{HEADS_SERVICE}"


def head_port(uid: str, attempt: int) -> int:
    """Returns the GCS port of one attempt, 20000-29999.

    Ray listens on all addresses, so two heads on one machine (a local cluster) must not
    share a port; neither may two attempts of one job.
    """
    seed = uid.replace("-", "")[:8]
    if seed and all(c in "0123456789abcdef" for c in seed):
        number = int(seed, 16)
    else:
        number = sum(map(ord, uid))
    # 7919 and 10000 have no common factor, so 10000 attempts in a row have as many ports.
    return 20000 + (number + attempt * 7919) % 10000


def run_name(job: str, uid: str, wanted: str | None) -> str:
    """Returns the name of the Ray Train run: the same in every attempt, so that a new attempt resumes."""
    return wanted or f"{job}-{uid[:8]}"


def child_labels(job: str, uid: str) -> dict[str, str]:
    """Returns what says whose a child is. Copies no labels from the TrainJob: GitOps tools would claim the child."""
    return {
        MANAGED_BY: "railhead",
        LABEL_JOB_NAME: job,
        LABEL_JOB_UID: uid,
        # Velero would make a child again without its owner, so that a pod would train for nobody.
        "velero.io/exclude-from-backup": "true",
    }
