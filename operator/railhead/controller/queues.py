"""Kueue's objects as last observed, and the watches of them, which an operator has only with --kueue.

The kinds are optional: a cluster without them, or without the right to watch them, holds up no start of the operator
and no job without a queue. The API server is asked again every 30 s, and what appears wakes the jobs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from railhead.api import names
from railhead.api.parsed_spec import JobKey
from railhead.controller.job_record import JobRecord
from railhead.controller.observe_queue import Key, observe_flavor, observe_priority, observe_workload
from railhead.json_object import Object
from railhead.kube.client import KubeClient, Scope
from railhead.kube.informer import Informer
from railhead.kube.kinds import RESOURCE_FLAVOR, WORKLOAD, WORKLOAD_PRIORITY_CLASS
from railhead.planning.queue_view import Flavor, QueueState, QueueView, WorkloadView

RETRY_SECONDS = 30.0


class _Index:
    """Jobs by the names of the objects that they need."""

    def __init__(self) -> None:
        self._names: dict[JobKey, frozenset[str]] = {}
        self._keys: defaultdict[str, set[JobKey]] = defaultdict(set)

    def change(self, key: JobKey, names_: Iterable[str]) -> None:
        for name in self._names.pop(key, ()):
            self._keys[name].discard(key)
            if not self._keys[name]:
                del self._keys[name]
        if wanted := frozenset(names_):
            self._names[key] = wanted
            for name in wanted:
                self._keys[name].add(key)

    def find(self, name: str) -> frozenset[JobKey]:
        return frozenset(self._keys.get(name, ()))


class Queues:
    """What is known of Kueue's objects.

    Attributes:
        compute_state: the state of Kueue's API in a namespace.
    """

    def __init__(self) -> None:
        self._workloads: defaultdict[JobKey, dict[str, WorkloadView]] = defaultdict(dict)  # then by the job's uid
        self._keys: dict[str, JobKey] = {}  # of the jobs with a Workload, by uid
        self._flavors: dict[str, Flavor] = {}
        self._priorities: dict[str, int] = {}
        self._by_flavor = _Index()
        self._by_priority = _Index()
        self.compute_state: Callable[[str], QueueState] = lambda namespace: "off"

    def change_workload(self, old: tuple[Key, WorkloadView] | None, new: tuple[Key, WorkloadView] | None) -> JobKey:
        """Takes note of a Workload that was added, modified or deleted; returns the key of its job."""
        if old is not None:
            (key, uid), _ = old
            self._workloads[key].pop(uid, None)
            self._keys.pop(uid, None)
            if not self._workloads[key]:
                del self._workloads[key]
        if new is not None:
            (key, uid), view = new
            self._workloads[key][uid] = view
            self._keys[uid] = key
        views = self._workloads.get(key, {}).values()
        self._by_flavor.change(key, (name for view in views for each in view.assignments for name in each.flavors))
        return key

    def change_job(self, key: JobKey, record: JobRecord | None) -> None:
        """Takes note of a job that was added, modified or deleted."""
        label = ""
        if record is not None and record.phase == "Queued":
            label = record.priority_label
        self._by_priority.change(key, [label] if label else ())

    def change_flavor(self, old: Flavor | None, new: Flavor | None) -> frozenset[JobKey]:
        """Takes note of a ResourceFlavor that was added, modified or deleted; returns the keys of the jobs that had
        no answer without."""
        if old is not None:
            self._flavors.pop(old.name, None)
        if new is not None:
            self._flavors[new.name] = new
        if old is None and new is not None:
            return self._by_flavor.find(new.name)
        return frozenset()

    def change_priority(self, old: tuple[str, int] | None, new: tuple[str, int] | None) -> frozenset[JobKey]:
        """Records a WorkloadPriorityClass in the same way."""
        if old is not None:
            self._priorities.pop(old[0], None)
        if new is not None:
            self._priorities[new[0]] = new[1]
        if old is None and new is not None:
            return self._by_priority.find(new[0])
        return frozenset()

    def key_of(self, job_uid: str) -> JobKey | None:
        """Returns the key of a job that has a Workload, also after the job is gone."""
        return self._keys.get(job_uid)

    def look(self, record: JobRecord) -> QueueView:
        """Returns what a job sees."""
        workload = self._workloads.get(record.key, {}).get(record.uid)
        wanted = {name for each in (workload.assignments if workload else ()) for name in each.flavors}
        return QueueView(
            state=self.compute_state(record.key.namespace),
            queue_label=record.queue_label,
            priority_label=record.priority_label,
            seconds_label=record.seconds_label,
            workload=workload,
            flavors={name: self._flavors[name] for name in wanted if name in self._flavors},
            priority=self._priorities.get(record.priority_label),
        )

    def list_remaining(self, key: JobKey, job_uid: str | None) -> list[WorkloadView]:
        """Returns the deleted Workloads that jobs of this name left, without that of the present one."""
        known = self._workloads.get(key, {})
        return [view for uid, view in known.items() if uid != job_uid and view.is_deleting and view.has_finalizer]


class QueueWatches:
    """The watches that fill `Queues`.

    Attributes:
        informers: of Workloads in each watched namespace, and of the cluster's flavors and priority classes.
    """

    def __init__(
        self,
        client: KubeClient,
        queues: Queues,
        *,
        namespaces: Sequence[str],
        wake: Callable[[JobKey], None],
        wake_all: Callable[[str | None], None],
    ) -> None:
        """`wake_all` wakes all jobs of a namespace, or (None) of all."""
        self._queues = queues
        self._wake = wake
        follow = partial(Informer, client, refusal_pause=RETRY_SECONDS)
        scopes = [Scope(WORKLOAD, namespace, names.LABEL_JOB_UID) for namespace in namespaces or (None,)]
        self._workloads = [follow(scope, on_change=self._on_workload, slim=observe_workload) for scope in scopes]
        flavors = follow(Scope(RESOURCE_FLAVOR), on_change=self._on_flavor, slim=observe_flavor)
        classes = follow(Scope(WORKLOAD_PRIORITY_CLASS), on_change=self._on_class, slim=observe_priority)
        self.informers: list[Informer[Any]] = [*self._workloads, flavors, classes]
        for informer in self.informers:
            informer.state.mark_optional(partial(wake_all, informer.namespace))
        queues.compute_state = self.compute_state

    def compute_state(self, namespace: str) -> QueueState:
        needed = [each for each in self.informers if each.namespace in (None, namespace)]
        if all(each.is_current for each in needed):
            return "served"
        if not any(each.state.is_refused and each.answered.is_set() for each in needed):
            return "unknown"
        if all(each.is_current for each in needed if each in self._workloads):
            return "partial"
        return "missing"

    def record_write(self, raw: Object) -> None:
        """Stores the API server's response to our own write."""
        namespace = raw["metadata"].get("namespace")
        for informer in self._workloads:
            if informer.namespace in (None, namespace):
                informer.record_write(raw)

    def _on_workload(self, old: tuple[Key, WorkloadView] | None, new: tuple[Key, WorkloadView] | None) -> None:
        self._wake(self._queues.change_workload(old, new))

    def _on_flavor(self, old: Flavor | None, new: Flavor | None) -> None:
        for key in self._queues.change_flavor(old, new):
            self._wake(key)

    def _on_class(self, old: tuple[str, int] | None, new: tuple[str, int] | None) -> None:
        for key in self._queues.change_priority(old, new):
            self._wake(key)
