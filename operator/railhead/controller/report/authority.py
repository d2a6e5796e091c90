"""Who may report: only the live head pod of the job's current attempt. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from railhead.api import names
from railhead.api.parsed_spec import JobKey
from railhead.api.status import JobStatus
from railhead.contract.answer import Answer
from railhead.contract.report import AUDIENCE, Report
from railhead.json_object import Object
from railhead.planning.pod_view import PodView

POD_NAME = "authentication.kubernetes.io/pod-name"
POD_UID = "authentication.kubernetes.io/pod-uid"
NOT_HEAD = "only the head pod of the job may report"
OF_INVALID_SPEC = Answer(restarts_in_place=0)  # nobody can say how many a spec allows that this operator cannot read


@dataclass(frozen=True)
class Speaker:
    """The pod that a token is bound to."""

    namespace: str
    pod: str
    pod_uid: str


@dataclass(frozen=True)
class JobFacts:
    """What the operator knows about the job in a report.

    Attributes:
        answer: for the attempt's driver, without `next_report_seconds`.
    """

    uid: str
    status: JobStatus
    pods: tuple[PodView, ...]
    answer: Answer = OF_INVALID_SPEC

    def list_nodes(self, report: Report) -> dict[str, str]:
        """Returns those of the pods with slow ranks, by the pod's name: most reports have none."""
        wanted = {slow.pod for slow in report.slow_ranks}
        if wanted:
            return {pod.name: pod.node for pod in self.pods if pod.name in wanted}
        return {}


class KnownJobs(Protocol):
    """What the endpoint asks the operator's caches. `is_head`: whether a job has a head pod with this uid."""

    def find_facts(self, key: JobKey) -> JobFacts | None: ...
    def is_head(self, pod_uid: str) -> bool: ...


def read_review(review: Object) -> Speaker | None:
    """Returns the speaker, from the status of a TokenReview; None when the token is not valid for this endpoint."""
    status = review.get("status") or {}
    if not status.get("authenticated") or AUDIENCE not in (status.get("audiences") or []):
        return None
    user = status.get("user") or {}
    extra = user.get("extra") or {}
    names_ = extra.get(POD_NAME) or []
    uids = extra.get(POD_UID) or []
    parts = str(user.get("username") or "").split(":")  # system:serviceaccount:<namespace>:<name>
    is_service_account = len(parts) == 4 and parts[:2] == ["system", "serviceaccount"]
    if not is_service_account or len(names_) != 1 or len(uids) != 1:
        return None
    return Speaker(namespace=parts[2], pod=str(names_[0]), pod_uid=str(uids[0]))


def refusal(speaker: Speaker, report: Report, job: JobFacts | None) -> tuple[int, str] | None:
    """Returns why this report is rejected, as an HTTP status and message; None when it is accepted."""
    if speaker.namespace != report.namespace:
        return 403, "the token belongs to another namespace"
    # The uid tells a job from an earlier one of the same name, whose head may still report.
    if job is None or job.uid != report.uid:
        return 404, "TrainJob not found"
    # By the uid: a pod that was deleted and made again has the same name.
    head = next((p for p in job.pods if p.uid == speaker.pod_uid and p.name == speaker.pod), None)
    if head is None or head.role != names.HEAD:
        return 403, NOT_HEAD
    if report.attempt != job.status.attempt or head.attempt != job.status.attempt:
        return 409, f"the job is in attempt {job.status.attempt}"
    failure = job.status.failure
    # A report that comes after the end would undo what the status records of it.
    if head.has_ended or job.status.is_finished or (failure and failure.attempt == report.attempt):
        return 409, "the attempt is over"
    return None
