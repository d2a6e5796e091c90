"""status of a TrainJob: what the operator and the driver have observed.

Two writers share it. The leader owns phase, conditions, attempt, round, restarts, head, workers, failure and the
times; the report endpoint owns progress, checkpoint, bestCheckpoint, runURI, trackerURL and resumedFrom.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from railhead.api.attempts import MAX_ATTEMPTS, Attempt
from railhead.api.conditions import MAX_CONDITIONS, Condition, find_condition
from railhead.api.goodput import GoodputStatus, SpentStatus
from railhead.api.model import ClassName, StatusModel, make_replace, message_field, optional, text_field, time_field
from railhead.api.names import MAX_NAME
from railhead.api.queue import AdmissionStatus
from railhead.api.run_status import RunStatus
from railhead.api.scheduling import ChosenGang
from railhead.api.slow_ranks import SlowRanks
from railhead.contract.failure import POLICIES, FailureClass
from railhead.contract.loss_rate import NO_JOB_LOSSES, JobLosses
from railhead.contract.report import (
    MAX_FINISHING,
    MAX_LOST_PODS,
    MAX_METRIC_NAME,
    MAX_METRIC_VALUE,
    MAX_METRICS,
    MAX_URI,
)
from railhead.contract.times import parse_time
from railhead.contract.trackers import MAX_LINK

MAX_MESSAGE = 1024
SUSPECT_POD = "Worker pod of the rank that seems to have failed first, as far as the driver knows."
PROCESS_EXIT_CODE = "Exit code of the script, or of a rank that called sys.exit(); absent if Ray does not report it."
MAX_STUCK_PODS = 32
MAX_AVOIDED_NODES = 16

Metrics = dict[Annotated[str, Field(max_length=MAX_METRIC_NAME)], Annotated[str, Field(max_length=MAX_METRIC_VALUE)]]
Phase = Literal[
    "", "Pending", "Starting", "Running", "Restarting", "Suspending", "Suspended", "Queued", "Succeeded", "Failed"
]
RESTING: tuple[Phase, ...] = ("Suspended", "Queued")  # phases without pods, from which an attempt begins


def _metrics(description: str) -> Any:
    return Field(default_factory=dict, max_length=MAX_METRICS, description=description)


class Restarts(StatusModel):
    """How often the job had to restart, by cause, since the count of that cause began again."""

    application: int = Field(
        default=0,
        description="Failures of the application, of attempts and restarts in place, that spec.backoffLimit counts.",
    )
    without_progress: int = Field(
        default=0,
        description="Attempts in a row lost to the infrastructure without a new checkpoint; spec.noProgressLimit.",
    )
    disruptions: int = Field(
        default=0,
        description="Attempts and rounds of worker pods lost to preemptions, evictions, drains, lost nodes and deleted "
        "pods; spec.disruptionLimit.",
    )


class HeadStatus(StatusModel):
    """The head pod of the current attempt."""

    pod: str = text_field("Name of the pod.", MAX_NAME)
    node: str = text_field("Node it runs on.", MAX_NAME)


class WorkersStatus(StatusModel):
    """The worker pods of the current attempt."""

    desired: int = Field(default=0, description="Worker pods wanted.")
    ready: int = Field(default=0, description="Worker pods whose container runs.")
    joined: int = Field(default=0, description="Worker pods that have joined the Ray cluster.")


class DriverWarning(StatusModel):
    """Something that the user should fix although training runs."""

    reason: str = text_field("CamelCase reason.", 64)
    message: str = message_field("What it is, and what to do.", MAX_MESSAGE)


class Resize(StatusModel):
    """An elastic job's planned removal of worker pods, right after the next committed checkpoint."""

    worker_pods: int = Field(default=0, description="Worker pods that will remain.")
    after_checkpoint: int = Field(
        default=-1,
        description="Index of the newest checkpoint when it was decided, -1 = none; the next one releases them.",
    )


class WorkerLosses(StatusModel):
    """Rounds of lost worker pods in the current attempt; a newer checkpoint resets the counts."""

    rounds: int = Field(default=0, description="Rounds without a new checkpoint.")
    own_fault: int = Field(
        default=0,
        description="Of these the latest ones in a row with a pod that was OOM-killed or evicted by the kubelet.",
    )
    refused: int = Field(
        default=0,
        description="Rounds in a row, not counted in rounds, in which nodes refused the pods; 0 again after all pods "
        "were up.",
    )
    checkpoint: int = Field(default=-1, description="Index of the newest checkpoint at the last round, -1 = none.")


class Budget(StatusModel):
    """What the job has done since its last failure of the application, so that spec.backoffLimit is full again."""

    running_seconds: int = Field(
        default=0, description="How long training has run since that failure, without the current stretch."
    )
    checkpoint: int = Field(default=-1, description="Index of the newest checkpoint at that time, -1 = none.")


class CountedRestarts(StatusModel):
    """Restarts in place of the current attempt that are counted already."""

    number: int = Field(default=0, description="All of them.")
    charged: int = Field(default=0, description="Those that spec.backoffLimit counts.")


class Waiting(StatusModel):
    """The job waits for training to run."""

    since: str | None = time_field("Start of the attempt, or time of the loss.")
    again: bool = Field(default=False, description="Whether it has run since the job was started or resumed.")


class OutcomeStatus(StatusModel):
    """How an attempt ended, by its driver's last report."""

    outcome: str = text_field("Succeeded, or a failure class.", 32)
    reason: str = text_field("CamelCase reason.", 128)
    message: str = message_field("What happened, in a sentence.", 4096)
    process_exit_code: int | None = optional(PROCESS_EXIT_CODE)
    suspect_pod: str = text_field(SUSPECT_POD, MAX_NAME)


class RestartStatus(StatusModel):
    """The last restart of the worker group in the same pods."""

    number: int = Field(default=0, description="How many there were in this attempt.")
    charged: int = Field(default=0, description="How many of them spec.backoffLimit counts.")
    class_: ClassName = Field(
        default=FailureClass.INFRASTRUCTURE, alias="class", description="What failed, as in status.failure."
    )
    reason: str = text_field("CamelCase word.", 128)
    message: str = message_field("What went wrong.", MAX_MESSAGE)
    suspect_pod: str = text_field(SUSPECT_POD, MAX_NAME)
    time: str | None = time_field("When, by the clock of the head's node.")


class ProgressStatus(StatusModel):
    """The latest report of one attempt's driver."""

    attempt: int = Field(default=0, description="Attempt that the report is about.")
    state: str = text_field("STARTING, SCHEDULING, RUNNING, RESTARTING, FINISHED or ERRORED.", 32)
    reports: int = Field(default=0, description="Reports of the whole worker group in this attempt.")
    joined: int = Field(default=0, description="Worker pods that have joined.")
    workers: int = Field(default=0, description="Ray Train workers of the current worker group.")
    step: int | None = optional("Steps of the run so far, by railhead.training.progress.")
    total_steps: int | None = optional("Steps that the run will have, likewise.")
    percent_complete: int | None = optional(
        "How much of the run is done; spec.run.progress. Absent if not known.", ge=0, le=100
    )
    estimated_remaining_seconds: int | None = optional(
        "How long training takes until its end, without further interruptions.", ge=0
    )
    remaining: str | None = text_field("The same in short, such as 3h20m.", 16, None)
    steps_per_second: str | None = text_field(
        "Decimal; by railhead.training.progress, else torch's optimizers.", 32, None
    )
    tokens_per_second: str | None = text_field("Decimal; by railhead.training.progress.", 32, None)
    metrics: Metrics = _metrics("Metrics of the latest report, as text.")
    update_time: str | None = time_field("When the driver recorded them.")
    spent: SpentStatus | None = optional("What the attempt's time was spent on until then.")
    warning: DriverWarning | None = optional(
        "What the user should fix although training runs; conditions Resumable, CheckpointFallback, "
        "StorageUnavailable, HangSuspected, MetricRuleFired, EndNotice, RayTested."
    )
    lost_pods: list[Annotated[str, Field(max_length=MAX_NAME)]] | None = optional(
        "Worker pods that do not answer the driver, of the last loss; they, or the head, are replaced.",
        max_length=MAX_LOST_PODS,
    )
    restart: RestartStatus | None = optional(
        "The last restart of the worker group in the same pods, after a failure of its own."
    )
    slow_ranks: SlowRanks = None
    finishing: str | None = text_field(
        "What the run still waits for when the function has returned on all ranks, and since when.", MAX_FINISHING, None
    )
    outcome: OutcomeStatus | None = optional(
        "How the attempt ended; used when the head pod vanishes with its termination message."
    )


class CheckpointStatus(StatusModel):
    """A committed checkpoint."""

    uri: str = text_field("Its location.", MAX_URI)
    index: int = Field(default=0, description="Number of the commit, counted from 0 over all attempts.")
    time: str | None = time_field("When it was committed.")
    metrics: Metrics = _metrics("Metrics reported with it, as text.")
    attempt: int = Field(default=0, description="Attempt that committed it.")


class InitialCheckpoint(StatusModel):
    """The checkpoint that spec.resumeFrom resolved to when the job started."""

    uri: str = text_field("Its location.", MAX_URI)
    train_job: str = text_field("TrainJob that it comes from; empty when the spec named a checkpoint.", MAX_NAME)


class ResumedFromStatus(StatusModel):
    """The checkpoint that the current attempt started from."""

    uri: str = text_field("Its location.", MAX_URI)


class FailureStatus(StatusModel):
    """The last failure; a new attempt does not clear it."""

    class_: ClassName = Field(
        default=FailureClass.INFRASTRUCTURE,
        alias="class",
        description="; ".join(f"{kind}: {policy.meaning}" for kind, policy in POLICIES.items()) + ".",
    )
    reason: str = text_field("CamelCase reason.", 128)
    message: str = message_field("What happened, in a sentence.", 4096)
    attempt: int = Field(default=0, description="Attempt that it ended.")
    pod: str = text_field("Pod where it was observed.", MAX_NAME)
    node: str = text_field("Node of that pod.", MAX_NAME)
    container: str = text_field("Container where it was observed.", MAX_NAME)
    exit_code: int | None = optional("Exit code of the container, if any.")
    process_exit_code: int | None = optional(PROCESS_EXIT_CODE)
    suspect_pod: str = text_field(SUSPECT_POD, MAX_NAME)
    suspect_node: str = text_field("Node of that pod.", MAX_NAME)
    action: str = text_field("Action of the rule of spec.failurePolicy that matched, if any.", 32)
    time: str | None = time_field("When the operator observed it.")


class StuckPod(StatusModel):
    """A pod that should have terminated minutes ago."""

    name: str = text_field("Name of the pod.", MAX_NAME)
    node: str = text_field("Node that it is on.", MAX_NAME)
    since: str | None = time_field("Its deletionTimestamp: the end of its grace period.")


class AvoidedNode(StatusModel):
    """A node that gets no new pods of the job."""

    name: str = text_field("Name of the node.", MAX_NAME)
    reason: str = text_field("CamelCase reason.", 128)
    since: str | None = time_field("Since when.")
    expiration_time: str | None = time_field("Until when.")
    times: int = Field(default=1, description="How often the job has begun to avoid it; each time for twice as long.")


class JobStatus(StatusModel):
    """Phase, progress, checkpoint and failure of a TrainJob."""

    observed_generation: int = Field(
        default=-1,
        description="Generation that the status is about; -1 = not observed yet.",
        json_schema_extra={"format": "int64"},
    )
    phase: Phase = Field(
        default="",
        description="Summary of the conditions: Pending, Starting, Running, Restarting, Suspending, Suspended, "
        "Queued, Succeeded or Failed.",
    )
    conditions: list[Condition] = Field(
        default_factory=list,
        max_length=MAX_CONDITIONS,
        description="Running, Suspended, Complete, Failed, Reconciling, Stalled, Resumable, CheckpointFallback, "
        "StorageUnavailable, HangSuspected, MetricRuleFired, EndNotice, RayTested; those of other controllers stay.",
    )
    run: RunStatus | None = optional("The job's run; absent before the first attempt.")
    attempt: int = Field(default=0, description="Current attempt, from 1: each has its own head pod.")
    round: int = Field(default=0, description="Replacements and reductions of worker pods within the attempt.")
    driver: str = text_field(
        "ConfigMap with the driver of the current attempt; an upgrade of the operator does not change it.", MAX_NAME
    )
    input: str = text_field("ConfigMap with the driver's input in the current attempt.", MAX_NAME)
    source: str = text_field(
        "The job's own copy of the ConfigMap of spec.source.configMap, for all attempts.", MAX_NAME
    )
    secret: str = text_field("Secret with the token of the current attempt's Ray cluster.", MAX_NAME)
    admission: AdmissionStatus | None = optional("What the queue gave the current attempt.")
    gang_scheduler: ChosenGang | None = optional(
        "What gangScheduler Auto chose for the current attempt; absent with any other."
    )
    worker_losses: WorkerLosses | None = optional(
        "Lost worker pods without a new checkpoint; absent before the first loss."
    )
    restarts: Restarts = Field(default_factory=Restarts, description="How often the job had to restart.")
    budget: Budget | None = optional("What makes spec.backoffLimit full again; absent before the first failure.")
    counted_restarts: CountedRestarts | None = optional(
        "Restarts in place of the current attempt; absent if there is none."
    )
    start_time: str | None = time_field("When the first attempt was decided.")
    suspended_seconds: int = Field(
        default=0, description="How long the job was suspended, without a current suspension."
    )
    waiting: Waiting | None = optional("Since when the job waits for training; absent while it runs.")
    completion_time: str | None = time_field("When the job ended.")
    goodput: GoodputStatus | None = optional("What the job's time was spent on.")
    clean_up_time: str | None = time_field("When spec.keepPodsSeconds removed the job's children.")
    head: HeadStatus = Field(default_factory=HeadStatus, description="The head pod.")
    workers: WorkersStatus = Field(default_factory=WorkersStatus, description="The worker pods.")
    resize: Resize | None = optional("Elastic training: a planned removal of worker pods.")
    progress: ProgressStatus = Field(default_factory=ProgressStatus, description="Latest report of the driver.")
    checkpoint: CheckpointStatus | None = optional("Newest committed checkpoint.")
    best_checkpoint: CheckpointStatus | None = optional(
        "Committed checkpoint with the best run.checkpoint.scoreAttribute, of all attempts."
    )
    run_uri: str = Field(
        default="", alias="runURI", max_length=MAX_URI, description="Where the run keeps its checkpoints."
    )
    tracker_url: str = Field(
        default="", alias="trackerURL", max_length=MAX_LINK, description="Where a tracker shows the run."
    )
    resumed_from: ResumedFromStatus | None = optional("Checkpoint that the current attempt started from.")
    initial_checkpoint: InitialCheckpoint | None = optional(
        "What spec.resumeFrom resolved to when the job started; the same for all attempts."
    )
    failure: FailureStatus | None = optional("The last failure.")
    attempts: list[Attempt] | None = optional(
        f"The last {MAX_ATTEMPTS} attempts, the oldest first.", max_length=MAX_ATTEMPTS
    )
    stuck_pods: list[StuckPod] | None = optional(
        "Pods of any attempt that are Terminating 5 minutes beyond their grace period and may still use "
        f"their GPUs, at most {MAX_STUCK_PODS}; absent if there is none.",
        max_length=MAX_STUCK_PODS,
    )
    avoided_nodes: list[AvoidedNode] | None = optional(
        "Nodes that get no new pods of this job, because they refused or did not start one, or their hardware failed; "
        "the oldest first.",
        max_length=MAX_AVOIDED_NODES,
    )
    formerly_avoided_nodes: list[AvoidedNode] | None = optional(
        f"The last {MAX_AVOIDED_NODES} nodes that were avoided and may get pods again.", max_length=MAX_AVOIDED_NODES
    )

    def with_conditions(self, *conditions: Condition) -> JobStatus:
        """Returns the status with these conditions, each instead of the one of its type; all others stay."""
        kept = self.without_conditions([condition.type for condition in conditions]).conditions
        return replace_status(self, conditions=[*kept, *conditions])

    def without_conditions(self, types: Collection[str]) -> JobStatus:
        """Returns the status without the conditions of these types."""
        return replace_status(self, conditions=[each for each in self.conditions if each.type not in types])

    def find_condition(self, type_: str) -> Condition | None:
        return find_condition(self.conditions, type_)

    def reason_of(self, type_: str) -> str | None:
        """Returns the reason of a condition, or None when there is no such condition."""
        condition = self.find_condition(type_)
        if condition:
            return condition.reason
        return None

    def has_condition(self, type_: str) -> bool:
        """Returns whether the condition is True."""
        condition = self.find_condition(type_)
        return condition is not None and condition.is_true

    def true_since(self, *types: str) -> datetime | None:
        """Returns since when the first of these conditions is True that is."""
        stamps = (c.last_transition_time for c in self.conditions if c.type in types and c.is_true)
        return parse_time(next(stamps, None))

    @property
    def newest_index(self) -> int:
        """Returns the newest index of the committed checkpoints, or -1 for none."""
        if self.checkpoint:
            return self.checkpoint.index
        return -1

    @property
    def is_resting(self) -> bool:
        """Returns whether the job is suspended or queued: it has no pods, and the next attempt begins from there."""
        return self.phase in RESTING

    @property
    def losses(self) -> JobLosses:
        """Returns what the job adds to the losses of its namespace's jobs: nothing without time on GPUs."""
        spent = self.goodput
        if spent is None or not spent.gpu_seconds:
            return NO_JOB_LOSSES
        return JobLosses(spent.losses.number, spent.gpu_seconds)

    @property
    def is_finished(self) -> bool:
        return self.has_condition("Complete") or self.has_condition("Failed")


# For example `replace_status(status, phase="Failed", resize=None)`.
replace_status = make_replace(JobStatus)
replace_budget = make_replace(Budget)
replace_checkpoint = make_replace(CheckpointStatus)
replace_failure = make_replace(FailureStatus)
replace_losses = make_replace(WorkerLosses)
replace_progress = make_replace(ProgressStatus)
replace_restarts = make_replace(Restarts)


def parse_status(raw: Any) -> JobStatus:
    """Returns the status; an invalid part counts as absent, because a status must never stop a job."""
    values = dict(raw) if isinstance(raw, dict) else {}
    for _ in range(len(values) + 1):
        try:
            return JobStatus.model_validate(values)
        except ValidationError as error:
            for bad in {str(e["loc"][0]) for e in error.errors() if e["loc"]}:
                values.pop(bad, None)
    return JobStatus()
