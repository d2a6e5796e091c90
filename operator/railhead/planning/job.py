"""A job with a valid spec: the input of every decision."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property

from railhead.api import names
from railhead.api.run_status import RunStatus
from railhead.api.scheduling import ChosenGang, GangSchedulerName
from railhead.api.spec import PodUser, TrainJobSpec
from railhead.json_object import Object
from railhead.planning.observed import Observed
from railhead.planning.pod_view import PodView, Problem, WorkerPods
from railhead.resources.base import JobRef
from railhead.resources.mounts import Mounts, build_input, name_mounts
from railhead.resources.queues.kueue import WORKERS


@dataclass(frozen=True)
class Job(Observed):
    """`Observed` plus the queries that need the spec. All worker counts are numbers of pods.

    Attributes:
        obstacle: why the job must have no pods by its queue (`facts.admission.find_obstacle`); None = it may run.
    """

    spec: TrainJobSpec
    obstacle: Problem | None = None

    @staticmethod
    def of(observed: Observed, spec: TrainJobSpec) -> Job:
        # Not `replace`, which makes an Observed again, and not `asdict`, which would copy pods and specs.
        values = {field.name: getattr(observed, field.name) for field in fields(Observed)}
        return Job(**{**values, "spec": spec})

    @property
    def ref(self) -> JobRef:
        metadata = self.settings.common_metadata.with_those_of(self.spec.child_metadata)
        run = self.status.run or RunStatus()
        return JobRef(self.namespace, self.name, self.uid, metadata, self.run_name, tuple(run.former_uids or ()))

    @property
    def run_name(self) -> str:
        """Returns the run's name: the same in all attempts, also of a job that was restored under another uid."""
        run = self.status.run or RunStatus()
        return run.name or names.run_name(self.name, self.uid, self.spec.run.name)

    @property
    def pod_user(self) -> PodUser:
        """Who the pods run as."""
        return self.spec.pod_user or self.settings.pod_user

    @cached_property
    def own_input(self) -> Object:
        """Returns the ConfigMap with the input of an attempt that this operator begins now."""
        return build_input(self.ref, self.spec, self.settings)

    @cached_property
    def own_mounts(self) -> Mounts:
        """Returns what the pods of an attempt mount that this operator begins now."""
        return name_mounts(self.ref, self.spec, self.settings, input_name=self.own_input["metadata"]["name"])

    def mounts_of(self, attempt: int) -> Mounts:
        """Returns what all pods of an attempt mount, also after an upgrade of the operator; all attempts mount one
        source."""
        status = self.status
        # The source is the only mount that all attempts share: a changed ConfigMap of the user reaches no later attempt
        # either.
        source = self.status.source
        # Compared first, since `own_mounts` serializes the whole input and most passes do not need it.
        if attempt == self.attempt and status.driver and status.input and status.secret:
            return Mounts(status.driver, status.input, status.secret, source)
        own = self.own_mounts
        if attempt != self.attempt:
            return replace(own, source=source or own.source)
        return Mounts(
            status.driver or own.driver, status.input or own.input, status.secret or own.secret, source or own.source
        )

    @property
    def chosen_gang(self) -> ChosenGang | None:
        """Returns what Auto chooses for an attempt that begins now; None with any other gangScheduler.

        It never chooses a scheduler beside the default one: its PodGroup tells neither whether it runs nor for whom.
        """
        if self.spec.gang_scheduler != "Auto":
            return None
        if self.serves_pod_groups:
            return "PodGroup"
        return "None"

    def gang_scheduler_of(self, attempt: int) -> GangSchedulerName:
        """Returns the attempt's gang scheduler: all of its pods join a group or none does, also after the API server
        has changed."""
        if attempt == self.attempt:
            chosen = self.status.gang_scheduler
        else:
            chosen = self.chosen_gang
        if self.spec.gang_scheduler != "Auto":
            return self.spec.gang_scheduler
        return chosen or "None"

    @property
    def is_elastic(self) -> bool:
        return self.spec.scaling.is_elastic

    @property
    def requested_workers(self) -> int:
        """Returns the number that the spec requests now."""
        return self._pods_for(self.spec.scaling.wanted_workers)

    @property
    def wanted_workers(self) -> int:
        """Returns how many workers the user wants; of an elastic job at most as many as its queue admitted."""
        admission = self.status.admission
        # A job at rest asks for all that it wants; only an admitted attempt is bound by what it was given.
        if admission is None or not self.is_elastic or self.is_at_rest:
            return self.requested_workers
        return min(self.requested_workers, max(admission.find(WORKERS).count, self.least_workers))

    @property
    def most_workers(self) -> int:
        """Returns the maximum. Slots are numbered from 0 up to, not including, this."""
        return self._pods_for(self.spec.scaling.most_workers)

    @property
    def least_workers(self) -> int:
        """Returns the minimum for training to run."""
        return self._pods_for(self.spec.scaling.least_workers)

    @property
    def desired_workers(self) -> int:
        """Returns the number for the current attempt. For an elastic job `decide_resize` brings it in line with the
        spec."""
        # The number in the status, and not the spec's: a changed spec takes effect through `decide_resize`, which
        # writes it.
        decided = self.status.workers.desired
        if not self.is_elastic or self.attempt == 0 or decided <= 0:
            return self.wanted_workers
        return min(decided, self.most_workers)

    def _pods_for(self, workers: int) -> int:
        return max(1, workers // self.spec.scaling.workers_per_pod)

    @cached_property
    def workers(self) -> WorkerPods:
        """Returns the worker pods of the current attempt, each in one set."""
        # The driver names these long before Kubernetes gives up their node.
        unreachable = frozenset(self.progress.lost_pods or ())
        return WorkerPods.of(self.pods, attempt=self.attempt, slots=self.most_workers, unreachable=unreachable)

    @cached_property
    def stale_pods(self) -> tuple[PodView, ...]:
        """Returns pods of earlier attempts that may still run."""
        return tuple(pod for pod in self.acting_pods if pod.attempt < self.attempt)

    @cached_property
    def empty_slots(self) -> tuple[int, ...]:
        """Free slots, one for each missing worker pod."""
        return self.workers.free_slots[: max(self.desired_workers - len(self.workers.live), 0)]

    @cached_property
    def surplus_workers(self) -> tuple[PodView, ...]:
        """Returns live worker pods beyond the desired number; pods that do not run are surplus first."""
        # The slot decides between equal pods, so that a pass that is repeated chooses the same ones.
        ranked = sorted(self.workers.live, key=lambda pod: (not pod.is_up, pod.slot))
        return tuple(ranked[self.desired_workers :])

    @cached_property
    def workers_up(self) -> int:
        return sum(pod.is_running for pod in self.workers.live)

    @property
    def are_all_up(self) -> bool:
        return self.head is not None and self.head.is_up and self.workers_up >= self.desired_workers

    @property
    def are_enough_up(self) -> bool:
        """Returns whether there are enough pods to train: all of them, but for an elastic job."""
        return self.head is not None and self.head.is_up and self.workers_up >= self.least_workers

    @property
    def were_all_up(self) -> bool:
        """Returns whether all pods ran, by the status or the driver's report: if a pod is missing now, it was lost.

        The driver's report may predate a later round or a resize.
        """
        is_first_group = self.status.round == 0 and not self.is_elastic
        known = max(self.status.workers.ready, self.progress.joined if is_first_group else 0)
        return self.was_head_up and known >= self.desired_workers

    @cached_property
    def live_pods(self) -> list[PodView]:
        """Returns the live pods of the current attempt, the head before the workers."""
        return [*([self.head] if self.head and self.head.is_live else []), *self.workers.live]

    @cached_property
    def not_started(self) -> list[PodView]:
        """Returns live pods that do not run yet."""
        return [pod for pod in self.live_pods if not pod.is_running]

    @cached_property
    def startup_problem(self) -> tuple[PodView, Problem] | None:
        """Returns the first pod that cannot start, and why."""
        return next(((pod, pod.problem) for pod in self.not_started if pod.problem is not None), None)
