"""Routes everything observed: the object goes into the store, its key into the queue."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from railhead.api import names
from railhead.api.goodput import GoodputStatus
from railhead.api.parsed_spec import InvalidSpec, JobKey
from railhead.api.status import JobStatus
from railhead.contract.answer import Answer
from railhead.contract.callbacks import ignore
from railhead.controller.job_record import read_key
from railhead.controller.keyed_queue import KeyedQueue
from railhead.controller.observe import PodRecord, record_pod
from railhead.controller.queues import QueueWatches
from railhead.controller.report.authority import JobFacts
from railhead.controller.store import Store
from railhead.json_object import Object
from railhead.kube.client import KubeClient, Scope
from railhead.kube.informer import Informer, version_of
from railhead.kube.kinds import POD
from railhead.kube.selector import EVERYTHING, LabelSelector
from railhead.planning.facts.failure_budget import count_allowed_restarts
from railhead.planning.facts.pod_failure import build_rules
from railhead.planning.observed import Denial


class ClusterState:
    """Receives watch events and the responses to our own writes.

    Attributes:
        informers: one watch of pods for the cluster, or one per watched namespace; they share no state.
        queues: the watches of Kueue's objects; None = the operator does not use Kueue.
    """

    def __init__(
        self,
        client: KubeClient,
        store: Store,
        queue: KeyedQueue[JobKey],
        *,
        namespaces: Sequence[str] = (),
        selector: LabelSelector = EVERYTHING,
        on_change: Callable[[str, JobStatus, JobStatus], None] = ignore,
        uses_kueue: bool = False,
    ) -> None:
        """`on_change` receives namespace, old and new status of a known job; `selector` also applies to responses."""
        self._store = store
        self._queue = queue
        self._on_change = on_change
        self._selector = selector
        self._now = client.clock.now
        self.informers = [
            Informer(client, Scope(POD, namespace, names.LABEL_JOB_UID), on_change=self.on_pod, slim=record_pod)
            for namespace in namespaces or (None,)
        ]
        for informer in self.informers:
            informer.state.on_return = partial(self._wake_jobs, informer.namespace)
        self.queues: QueueWatches | None = None
        if uses_kueue:
            self.queues = QueueWatches(
                client,
                store.queues,
                namespaces=namespaces,
                wake=queue.add,
                wake_all=self._wake_jobs,
            )

    def on_job(self, event_type: str | None, raw: Object) -> None:
        if event_type == "DELETED":
            self._store.drop_job(read_key(raw), raw["metadata"]["uid"], version=version_of(raw))
        else:
            self.record_job(raw)

    def on_pod(self, old: PodRecord | None, new: PodRecord | None) -> None:
        key = self._store.change_pod(old, new)
        if key is not None:
            self._queue.add(key)

    def record_job(self, raw: Object) -> None:
        metadata = raw.get("metadata") or {}
        known = read_key(raw)
        old = self._store.job(known)
        # The labels were changed, so the job is another operator's since this write.
        if not self._selector.matches(metadata.get("labels") or {}):
            if old is None or old.version < version_of(raw):
                self._store.drop_job(known, str(metadata.get("uid")), version=version_of(raw))
            return
        key = self._store.put_job(raw)
        if key is None:
            return
        self._queue.add(key)
        new = self._store.job(key)
        # Another uid is another job, whose numbers have nothing to do with the old one's.
        if old is not None and new is not None and old.uid == new.uid:
            self._on_change(key.namespace, old.read().status, new.read().status)

    def record_job_gone(self, key: JobKey, uid: str) -> None:
        self._store.drop_job(key, uid)

    def record_pod(self, raw: Object) -> None:
        namespace = raw["metadata"].get("namespace")
        for informer in self.informers:
            if informer.namespace in (None, namespace):
                informer.record_write(raw)

    def record_workload(self, raw: Object) -> None:
        if self.queues is not None:
            self.queues.record_write(raw)

    def record_denial(self, key: JobKey, uid: str, denial: Denial) -> None:
        """Records that the API server denied to delete or to change an object of the job; its next pass reports it."""
        self._store.note_denial(uid, denial)
        self._queue.add(key)

    def forget_denial(self, uid: str, name: str) -> None:
        self._store.forget_denial(uid, name)

    def find_facts(self, key: JobKey) -> JobFacts | None:
        record = self._store.job(key)
        if record is None:
            return None
        spec, status = record.read()
        facts = JobFacts(record.uid, status, self._store.pods(record.owner))
        if isinstance(spec, InvalidSpec):
            return facts
        metric_rules = spec.metric_policy.rules if spec.metric_policy else ()
        goodput = status.goodput or GoodputStatus()
        answer = Answer(
            progress_deadline_seconds=spec.progress_deadline_seconds,
            hang_policy=spec.hang_policy,
            restarts_in_place=count_allowed_restarts(spec, status, self._now()),
            failure_rules=build_rules(spec),
            metric_rules=tuple(rule.to_contract() for rule in metric_rules),
            losses=replace(goodput.losses, others=self._store.count_losses_of_others(key)),
        )
        return replace(facts, answer=answer)

    def is_head(self, pod_uid: str) -> bool:
        return self._store.is_head(pod_uid)

    @property
    def are_synced(self) -> bool:
        """Returns whether each watch has delivered its first list, but for those that the API server refuses."""
        return any(i.is_synced for i in self.informers) and all(i.answered.is_set() for i in self.informers)

    def is_current(self, namespace: str) -> bool:
        """Returns whether its pods are known as they are now, so that one that is missing is lost."""
        return all(i.is_current for i in self.informers if i.namespace in (None, namespace))

    def _wake_jobs(self, namespace: str | None) -> None:
        """Queues the jobs of this namespace (None: of all), whose pods are known again: they had no passes
        meanwhile."""
        for record in self._store.all_records():
            if namespace in (None, record.key.namespace):
                self._queue.add(record.key)
