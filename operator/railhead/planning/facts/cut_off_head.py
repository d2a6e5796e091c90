"""Whether the network of the head itself is broken, so that no other worker pod would reach it.

The driver misses a worker pod within seconds; Kubernetes marks the pods of a node that does not respond after 40 s or
more. Until then a head that is cut off and a rack without power look the same. Nothing waits for the difference:
training stands still either way, and a new attempt is right for both, since most of the pods must be made again. Its
price for the rack is that the head and the pods that are left start again too. Once Kubernetes has marked the pods, or
something has deleted or ended them, they are no evidence against the head.
"""

from __future__ import annotations

from railhead.contract.failure import Failure, FailureClass
from railhead.contract.report import ACCELERATOR_NOT_THERE, MAX_LOST_PODS
from railhead.planning.facts.disruptions import HEAD_CUT_OFF
from railhead.planning.facts.worker_losses import count_losses
from railhead.planning.job import Job
from railhead.planning.pod_view import PodView


def find_cut_off(job: Job) -> Failure | None:
    """The head misses more than half of the workers that run on other nodes, on two nodes or more; or on fewer nodes
    those that have replaced others since the newest checkpoint. A head that reaches enough to train is fine."""
    head, missed = job.head, _find_missed(job)
    if head is None or not missed or job.workers_up >= job.least_workers:
        return None
    reached = sum(pod.is_up and pod.node != head.node for pod in job.workers.live)
    silent = sum(pod.is_live and pod.is_silent for pod in job.workers.lost)
    are_most = len(missed) > reached + silent or len(missed) >= MAX_LOST_PODS  # a full report may leave some out
    is_again = count_losses(job).rounds > 0 and any(pod.round for pod in missed)
    if not are_most or not (is_again or len({pod.node for pod in missed}) > 1):
        return None
    message = (
        f"{head.place} does not reach {len(missed)} of {job.desired_workers} worker pods, and Kubernetes reports them "
        "as ready; check the network of that node"
    )
    return Failure(FailureClass.INFRASTRUCTURE, HEAD_CUT_OFF, message, suspect_pod=head.name)


def _find_missed(job: Job) -> list[PodView]:
    """Worker pods that do not answer the driver, although their nodes respond."""
    warning = job.status.progress.warning
    if warning is not None and warning.reason == ACCELERATOR_NOT_THERE:
        return []  # the driver reaches them, and does not want them
    return [pod for pod in job.workers.lost if pod.is_live and not pod.is_silent]
