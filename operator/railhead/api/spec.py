"""spec of a TrainJob: everything that a user can request. Large sections have modules with their names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from railhead.api.child_metadata import ChildMetadata
from railhead.api.env import ENV_SIZE, EnvFrom, EnvVar, RuntimeEnv
from railhead.api.log_options import MOST_FORWARDED, Logs
from railhead.api.metric_policy import MetricPolicy
from railhead.api.metrics import Metrics
from railhead.api.model import NAMED_LIST, Image, Model, checked, optional, rules, time_limit
from railhead.api.pod_template import PodTemplate
from railhead.api.pod_templates import CPU_LIMIT_RULES, SHARED_MEMORY_RULE, HeadConfig, PullSecret, Worker
from railhead.api.ray_options import RayOptions
from railhead.api.run import CPU_FOR_TASKS, SPLIT_OF_BUILD, Dataset, DatasetName, ResumeFrom, Run
from railhead.api.scaling import Scaling
from railhead.api.scheduling import PRIORITY_RULE, GangSchedulerName, Scheduling
from railhead.api.source import Source
from railhead.api.topology import TOPOLOGY_RULE, Topology
from railhead.api.trainer import BACKEND_RULES, SCRIPT_RULES, TrainerConfig
from railhead.contract.failure import POLICIES, Payer

# defaults of suspendGraceSeconds
GRACE_SECONDS = 60
GRACE_SECONDS_OF_GPUS = 600
# defaults of backoffResetSeconds
RESET_SECONDS = 21_600  # of a job with at most RESET_SIZE GPUs, or workers without GPUs
# A larger job has as many failures by chance in a shorter time.
RESET_SIZE = 256
LEAST_RESET_SECONDS = 600
DRAIN_SECONDS_OF_GPUS = 30  # default of worker.drainSeconds with useGPU; else 0


PodUser = Literal["Fixed", "Cluster"]
Action = Literal["Fail", "Restart", "RestartAndIgnore"]
# Without those that no rule can change, such as the job's own deadline, or a run that a later attempt owns.
RULED_CLASSES = tuple(sorted(kind.value for kind, policy in POLICIES.items() if policy.can_have_rule))
if TYPE_CHECKING:
    RuledClass = str  # a type checker knows no Literal of computed values
else:
    RuledClass = Literal[RULED_CLASSES]
Reason = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")]
ExitCode = Annotated[int, Field(ge=1, le=255)]
SET: dict[str, Any] = {"x-kubernetes-list-type": "set"}


def _name_classes(payer: Payer) -> str:
    """Names the failure classes that this budget pays for; stands here since the descriptions below need it."""
    paid = [str(kind) for kind, policy in POLICIES.items() if policy.payer is payer and not policy.final]
    return f"{', '.join(paid[:-1])} and {paid[-1]}"


class OnExitCodes(Model):
    """Codes of the user's process."""

    operator: Literal["In", "NotIn"] = Field(description="Whether the exit code is one of values, or none of them.")
    values: list[ExitCode] = Field(min_length=1, max_length=255, description="Exit codes.", json_schema_extra=SET)


class FailurePolicyRule(Model):
    """One rule."""

    model_config = checked(
        (
            "",
            "[has(self.onExitCodes), has(self.onReason), has(self.onClass)].filter(isSet, isSet).size() == 1",
            "exactly one of onExitCodes, onReason and onClass must be set",
        ),
    )
    action: Action = Field(
        description="Fail: the job fails. Restart: another attempt follows, also after class Configuration, and the "
        "limits count as without a rule. RestartAndIgnore: another attempt follows after a backoff, and no limit "
        "counts the lost one.",
    )
    on_exit_codes: OnExitCodes | None = optional(
        "The exit code of trainer.entrypoint's process (128 + n after signal n), or the code with which a "
        "rank called sys.exit(); status.failure.processExitCode. Ray does not report the code of a rank that was "
        "killed or called os._exit(): then no such rule matches."
    )
    on_reason: list[Reason] | None = optional(
        "status.failure.reason is one of these.", min_length=1, max_length=32, json_schema_extra=SET
    )
    # Room for classes to come: a new one changes no bound.
    on_class: list[RuledClass] | None = optional(
        "status.failure.class is one of these.", min_length=1, max_length=16, json_schema_extra=SET
    )


class FailureRules(Model):
    """What follows a lost attempt."""

    rules: list[FailurePolicyRule] = Field(
        min_length=1,
        max_length=20,
        description="The first one that matches decides; without one, the class of the failure does.",
    )


class TrainJobSpec(Model):
    """What is trained, from which code, on how many workers, and where its checkpoints go."""

    model_config = checked(
        *BACKEND_RULES,
        *CPU_LIMIT_RULES,
        SHARED_MEMORY_RULE,
        CPU_FOR_TASKS,
        SPLIT_OF_BUILD,
        *SCRIPT_RULES,
        PRIORITY_RULE,
        TOPOLOGY_RULE,
    )
    image: Image = Field(
        description="Container image of head and workers: Ray 2.52 or newer and the framework, no part of Railhead.",
    )
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = optional(
        "When the image is pulled, as in a pod."
    )
    image_pull_secrets: list[PullSecret] | None = optional(
        "Secrets with registry credentials.", max_length=8, json_schema_extra=NAMED_LIST
    )
    trainer: TrainerConfig = Field(description="What is trained.")
    source: Source | None = optional("Where the code comes from; without it, from the image.")
    scaling: Scaling = Field(default_factory=Scaling, description="Workers and their resources (ScalingConfig).")
    run: Run = Field(description="Name, storage and policies of the run (RunConfig).")
    datasets: dict[DatasetName, Dataset] | None = optional(
        "Ray Data datasets by name; train_func gets its shard with ray.train.get_dataset_shard(name).",
        min_length=1,
        max_length=16,
    )
    env: list[EnvVar] | None = optional(
        "Environment of both roles: 64 KiB in total.", max_length=128, json_schema_extra=rules(ENV_SIZE, **NAMED_LIST)
    )
    runtime_env: RuntimeEnv | None = optional(
        "Ray's runtime_env, for the training workers only; its keys are Ray's own."
    )
    env_from: list[EnvFrom] | None = optional(
        "ConfigMaps and Secrets whose keys become environment variables of both roles.", max_length=32
    )
    pod_template: PodTemplate | None = optional(
        "PodTemplateSpec for both roles: node selectors, tolerations, volumes, additional containers. "
        "The main container is named ray."
    )
    child_metadata: ChildMetadata | None = optional(
        "Labels and annotations of all objects that the operator makes for the job: pods, ConfigMaps, Secret, "
        "NetworkPolicy, PodGroup and Workload. On pods, podTemplate.metadata wins."
    )
    pod_user: PodUser | None = optional(
        "Who the pods run as; podTemplate wins. Fixed: user, group and fsGroup 1000, the user of Ray's "
        "images. Cluster: the cluster's admission chooses, as on OpenShift, else the image. Default: that of the "
        "operator, which is Fixed unless its administrator has changed it."
    )
    head: HeadConfig = Field(default_factory=HeadConfig, description="The head pod.")
    worker: Worker = Field(default_factory=Worker, description="The worker pods.")
    metrics: Metrics | None = optional("Where Prometheus reads the job's own metrics.")
    ray: RayOptions | None = optional("Parts of Ray that are off by default.")
    logs: Logs | None = optional("Where the logs go, and what of them is kept.")
    backoff_limit: int = Field(
        default=3,
        ge=0,
        le=900,
        description=f"How many attempts may be lost to the application (classes {_name_classes(Payer.APPLICATION)}) "
        "before the job fails; backoffResetSeconds refills it. May be changed at any time.",
    )
    backoff_reset_seconds: int | None = time_limit(
        "After so much training since the last failure that backoffLimit counts, and a newer checkpoint, it counts "
        "from 0 again. Default: 21600; with more than 256 GPUs, or workers without GPUs, 21600 * 256 / their number, "
        "at least 600.",
        least=0,
    )
    no_progress_limit: int = Field(
        default=3,
        ge=0,
        le=900,
        description="How many attempts in a row may be lost to the infrastructure (classes "
        f"{_name_classes(Payer.INFRASTRUCTURE)}) without a new checkpoint before the job fails, or with one that "
        "followed on less than backoffResetSeconds of training before a Hang; disruptions do not count, nor does "
        "hardware on a node that the job has not avoided before. May be changed at any time.",
    )
    disruption_limit: int | None = optional(
        "How many disruptions the job may suffer before it fails: attempts and rounds of worker pods lost "
        "to preemption, eviction, a drain, a lost node or a deleted pod. Absent: any number. "
        "May be changed at any time.",
        ge=0,
        le=1_000_000,
    )
    failure_policy: FailureRules | None = optional(
        "Rules for particular failures: which end the job, and which no limit counts. They look at what "
        "ends an attempt; a worker pod that is replaced ends none. May be changed at any time."
    )
    metric_policy: MetricPolicy | None = optional(
        "Rules for the metrics that training reports: they warn, end the job, or restart its worker group. "
        "May be changed at any time; the driver learns of it with its next report."
    )
    managed_by: str = Field(
        default="railhead.dev/operator",
        min_length=1,
        max_length=253,
        pattern=r"^[a-z0-9.-]+/[A-Za-z0-9._/-]+$",
        description="Which controller runs the job. This operator ignores jobs with any value other than the default.",
    )
    suspend: bool = Field(
        default=False,
        description="Suspends the job, which releases its pods; with false it resumes from its last checkpoint. "
        "May be changed at any time.",
    )
    suspend_grace_seconds: int | None = optional(
        "How long the driver waits for one more committed checkpoint after SIGTERM (suspend, a drain of "
        "the head's node, activeDeadlineSeconds): train_func sees it in ray.train.get_preemption_info() (Ray 2.58) "
        "and should save a checkpoint. Default: 60, with scaling.useGPU 600.",
        ge=0,
        le=86400,
    )
    resume_from: ResumeFrom | None = optional(
        "A TrainJob or a checkpoint to start from. It is only read; the job writes to its own run."
    )
    scheduling: Scheduling | None = optional("Which nodes the job's pods may use, and when.")
    start_deadline_seconds: int | None = time_limit(
        "Limit from the start, or from a resume, until training runs. After it all pods are released and the next "
        "attempt backs off."
    )
    restart_deadline_seconds: int | None = time_limit(
        "Limit from a loss until training runs again. After it all pods are released and the next attempt backs off."
    )
    partial_start_deadline_seconds: int = time_limit(
        "How long pods that are too few to train keep their nodes while no further pod gets one, at a start or after a "
        "loss. After it all pods are released, which counts in no budget, and the next attempt follows with a "
        "growing delay. 0: they keep them.",
        least=0,
        default=1800,
    )
    progress_deadline_seconds: int | None = time_limit(
        "Limit while training runs: from one report of all ranks to the next, or from the start of the worker group "
        "to the first. After it the attempt ends as Hang, with the ranks' stacks in the head's log. Must be longer "
        "than an epoch and the upload of its checkpoint."
    )
    hang_policy: Literal["Warn", "Restart"] = Field(
        default="Warn",
        description="What happens when no rank makes a step for longer than 10 minutes and 3 times the longest such "
        "gap of the run, after its first 20 steps and not within ray.train.report. Warn: the condition HangSuspected "
        "says where the ranks are. Restart: after twice that time, the worker group restarts as after any Hang. Steps "
        "are those of torch's optimizers, and calls of railhead.training.progress; a job without any is only watched "
        "by progressDeadlineSeconds. May be changed at any time.",
    )
    active_deadline_seconds: int | None = time_limit(
        "Limit from the first start, without time suspended or queued. After it an unfinished job fails, unless it is "
        "suspended, or about to be: such a job fails once it would get pods again."
    )
    keep_pods_seconds: int = time_limit(
        "Time from the end of the job until its head pod and its other children are deleted. The TrainJob and its "
        "data in storage stay.",
        least=0,
        default=86_400,
    )
    ttl_seconds_after_finished: int | None = time_limit(
        "Time from the end of the job until the TrainJob itself is deleted, and its children with it. Its data in "
        "storage stays.",
        least=0,
    )

    @property
    def avoids_nodes(self) -> bool:
        """Returns whether the job avoids sick nodes."""
        return self.scheduling is None or self.scheduling.node_avoidance == "Auto"

    @property
    def gang_scheduler(self) -> GangSchedulerName:
        """scheduling.gangScheduler, or its default."""
        if self.scheduling:
            return self.scheduling.gang_scheduler
        return "None"

    @property
    def priority_class_name(self) -> str | None:
        """scheduling.priorityClassName."""
        if self.scheduling:
            return self.scheduling.priority_class_name
        return None

    @property
    def topology(self) -> Topology | None:
        """scheduling.topology."""
        if self.scheduling:
            return self.scheduling.topology
        return None

    @property
    def queue_name(self) -> str:
        """scheduling.queueName; "" without one."""
        return (self.scheduling.queue_name if self.scheduling else None) or ""

    @property
    def end_seconds(self) -> int:
        """suspendGraceSeconds, or its default."""
        if self.suspend_grace_seconds is not None:
            return self.suspend_grace_seconds
        if self.scaling.use_gpu:
            return GRACE_SECONDS_OF_GPUS
        return GRACE_SECONDS

    @property
    def reset_seconds(self) -> int:
        """backoffResetSeconds, or its default."""
        if self.backoff_reset_seconds is not None:
            return self.backoff_reset_seconds
        return find_default_reset_seconds(self.scaling)

    @property
    def forward_logs(self) -> str:
        """logs.forward, or its default."""
        chosen = self.logs.forward if self.logs else None
        return chosen or ("All" if self.scaling.most_workers <= MOST_FORWARDED else "Rank0")

    @property
    def has_dashboard(self) -> bool:
        """ray.dashboard."""
        return self.ray is not None and self.ray.dashboard

    @property
    def drain_seconds(self) -> int:
        """worker.drainSeconds, or its default; 0 = a worker exits at once on SIGTERM."""
        return self.worker.drain_seconds or (DRAIN_SECONDS_OF_GPUS if self.scaling.use_gpu else 0)


def find_default_reset_seconds(scaling: Scaling) -> int:
    """Returns the default of spec.backoffResetSeconds. Failures by chance grow with the job, so it refills earlier."""
    size = max(RESET_SIZE, scaling.most_gpus, scaling.most_workers)
    return max(LEAST_RESET_SECONDS, RESET_SECONDS * RESET_SIZE // size)
