"""A job whose spec is understood: what decisions are made from."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property

from railhead.api.spec import TrainJobSpec
from railhead.planning.observed import Observed
from railhead.planning.pod_view import PodView, Problem
from railhead.planning.worker_pods import WorkerPods
from railhead.resources.owner import JobRef


@dataclass(frozen=True)
class Job(Observed):
    """`Observed`, and the questions that need its spec. Numbers of workers are numbers of pods."""

    spec: TrainJobSpec

    @staticmethod
    def of(observed: Observed, spec: TrainJobSpec) -> Job:
        values = {field.name: getattr(observed, field.name) for field in fields(Observed)}
        return Job(**{**values, "spec": spec})

    @property
    def ref(self) -> JobRef:
        return JobRef(namespace=self.namespace, name=self.name, uid=self.uid)

    @property
    def is_elastic(self) -> bool:
        return self.spec.scaling.is_elastic

    @property
    def wanted_workers(self) -> int:
        """What the spec asks for now."""
        return self._pods_for(self.spec.scaling.wanted_workers)

    @property
    def most_workers(self) -> int:
        """There may be so many; their slots are 0 to this."""
        return self._pods_for(self.spec.scaling.most_workers)

    @property
    def least_workers(self) -> int:
        """Without so many there is no training."""
        return self._pods_for(self.spec.scaling.least_workers)

    @property
    def desired_workers(self) -> int:
        """Of the current attempt. An elastic job's follow the spec by `decide_resize`."""
        decided = self.status.workers.desired
        if not self.is_elastic or self.attempt == 0 or decided <= 0:
            return self.wanted_workers
        return min(decided, self.most_workers)

    def _pods_for(self, workers: int) -> int:
        return max(1, workers // self.spec.scaling.workers_per_pod)

    @cached_property
    def workers(self) -> WorkerPods:
        """The pods of the current attempt and the stale ones, each in one set."""
        return WorkerPods.of(self.pods, attempt=self.attempt, slots=self.most_workers)

    @property
    def stale_pods(self) -> tuple[PodView, ...]:
        """Pods of earlier attempts that may still run."""
        return tuple(pod for pod in self.acting_pods if pod.attempt < self.attempt)

    @property
    def empty_slots(self) -> tuple[int, ...]:
        """As many free slots as worker pods are missing."""
        return self.workers.free_slots[: max(self.desired_workers - len(self.workers.live), 0)]

    @property
    def surplus_workers(self) -> tuple[PodView, ...]:
        """Live worker pods beyond those that are desired: first those that do not run."""
        ranked = sorted(self.workers.live, key=lambda pod: (not pod.is_up, pod.slot))
        return tuple(ranked[self.desired_workers :])

    @property
    def workers_up(self) -> int:
        return sum(pod.is_up for pod in self.workers.live)

    @property
    def are_all_up(self) -> bool:
        return self.head is not None and self.head.is_up and self.workers_up >= self.desired_workers

    @property
    def are_enough_up(self) -> bool:
        """All, or for an elastic job so many that it can train."""
        if not self.is_elastic:
            return self.are_all_up
        return self.head is not None and self.head.is_up and self.workers_up >= self.least_workers

    @property
    def were_all_up(self) -> bool:
        """The status or the driver says so; a pod that is missing now was lost, not merely not created yet.

        The driver's report may be older than a later round, or than a resize.
        """
        is_first_group = self.status.round == 0 and not self.is_elastic
        known = max(self.status.workers.ready, self.joined if is_first_group else 0)
        return self.was_head_up and known >= self.desired_workers

    @property
    def not_started(self) -> list[PodView]:
        """Live pods that do not run yet, the head before the workers."""
        own = [*([self.head] if self.head else []), *self.workers.live]
        return [pod for pod in own if pod.is_live and not pod.is_running]

    @property
    def startup_problem(self) -> tuple[PodView, Problem] | None:
        """The first pod that cannot start."""
        return next(((pod, pod.problem) for pod in self.not_started if pod.problem is not None), None)
