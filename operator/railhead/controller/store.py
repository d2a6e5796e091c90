"""Jobs and their pods as last observed: slim, and indexed so that an event costs the same for any number of jobs.

A job's spec is parsed once per generation. The newer resourceVersion wins, so that the response
to our own write and a late watch event may arrive in any order.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from railhead.api import names
from railhead.api.namespace_losses import NamespaceLosses
from railhead.api.parsed_spec import InvalidSpec, JobKey
from railhead.api.spec import TrainJobSpec
from railhead.api.status import RESTING, JobStatus
from railhead.contract.loss_rate import JobLosses
from railhead.controller.job_record import JobRecord, RunKey, read_key, record_job
from railhead.controller.observe import NO_OWNER, Owner, PodRecord, has_own_name
from railhead.controller.queues import Queues
from railhead.json_object import Object
from railhead.kube.informer import Tombstones, uid_of, version_of
from railhead.planning.observed import DENIED_ROW_SECONDS, Announced, Denial, Observed, Rejection, RunHolder
from railhead.planning.pod_view import PodEvents, PodView, Problem
from railhead.planning.queue_view import WorkloadView
from railhead.resources.base import OperatorSettings


def _rank_holder(other: JobRecord) -> tuple[bool, str, str]:
    return other.attempt == 0, other.created, other.uid


def _holds_run(other: JobRecord, record: JobRecord) -> bool:
    """Returns whether another unfinished job has the run of this one, or gets it first."""
    if record.attempt > 0:
        # This one was restored: it waits for none that waits for it.
        return other.has_run
    if other.attempt > 0:
        return True
    if other.phase in RESTING or other.is_deleting:
        # A job at rest may never begin, so nobody waits for it.
        return False
    return (other.created, other.uid) < (record.created, record.uid)


class Store:
    """The source of the planner's observations. Updated by watch events and by our own writes.

    Attributes:
        newest_version: the newest resourceVersion that is known of any job, or of a list of them.
        avoided_nodes: how many nodes jobs avoid, summed over the jobs.
        queues: what is known of Kueue.
    """

    def __init__(self) -> None:
        self._jobs: dict[JobKey, JobRecord] = {}
        self._pods: defaultdict[Owner, dict[str, PodView]] = defaultdict(dict)
        self._foreign: defaultdict[Owner, set[str]] = defaultdict(set)  # names of pods that only carry a job's label
        self._denials: dict[str, dict[str, Denial]] = {}  # by the job's uid, then by the object's name
        self._heads: set[str] = set()  # uids of pods
        self._keys: dict[str, JobKey] = {}
        self._rejections: dict[str, Rejection] = {}
        self._announced: dict[str, Announced] = {}
        self._drivers: Counter[tuple[str, str]] = Counter()  # unfinished jobs by namespace and driver
        self.avoided_nodes = 0
        self._runs: defaultdict[RunKey, set[JobKey]] = defaultdict(set)  # of unfinished jobs
        self._losses = NamespaceLosses()  # of all jobs there are
        self.queues = Queues()
        self._pod_events: dict[str, PodEvents] = {}  # by the pod's uid
        self._tombstones = Tombstones()
        self._led_since: datetime | None = None
        self.newest_version = 0

    def note_version(self, version: int) -> None:
        self.newest_version = max(self.newest_version, version)

    def job(self, key: JobKey) -> JobRecord | None:
        return self._jobs.get(key)

    def all_records(self) -> Iterable[JobRecord]:
        """Returns the records of all jobs, to be read before the store changes."""
        return self._jobs.values()

    def put_job(self, raw: Object) -> JobKey | None:
        """Stores a TrainJob; returns its key when the object is new or newer."""
        key = read_key(raw)
        uid = uid_of(raw)
        version = version_of(raw)
        self.note_version(version)
        old = self._jobs.get(key)
        # The watch may deliver an older state after the response to a newer write of our own.
        if old is not None and version <= old.version:
            return None
        if self._tombstones.is_deleted_since(uid, version):
            # The response to our own write, processed after the DELETED event.
            return None
        # A job that was deleted and created again under its name inherits nothing.
        if old is not None and old.uid != uid:
            self._keys.pop(old.uid, None)
            self._forget(old.uid)
            # Its DELETED event may never arrive.
            self._tombstones.add(old.uid, version)
        new = record_job(raw, old)
        self._keys[uid] = key
        # Taken out with the old record's numbers, and put in with the new one's, so the sums never drift.
        self._count(old, -1)
        self._jobs[key] = new
        self._count(new, 1)
        self.queues.change_job(key, new)
        self._announced.setdefault(uid, new.announced)
        return key

    def count_losses_of_others(self, key: JobKey) -> JobLosses:
        """Returns the losses of the other jobs in the namespace of this one. They are added up as jobs change: each
        report asks for them."""
        known = self._losses.sum_up(key.namespace)
        record = self._jobs.get(key)
        if record is None:
            return known
        return known.add(record.losses, times=-1)

    def _count(self, record: JobRecord | None, change: int) -> None:
        if record is None:
            return
        self._losses.add(record.key.namespace, record.losses, times=change)
        if not record.is_finished:
            self.avoided_nodes += change * record.avoided_nodes
            place = (record.key.namespace, record.driver)
            self._drivers[place] += change
            if not self._drivers[place]:
                del self._drivers[place]
            self._count_run(record, change)

    def _count_run(self, record: JobRecord, change: int) -> None:
        if record.run_key is None:
            return
        if change > 0:
            self._runs[record.run_key].add(record.key)
            return
        self._runs[record.run_key].discard(record.key)
        if not self._runs[record.run_key]:
            del self._runs[record.run_key]

    def _find_run_holder(self, record: JobRecord, status: JobStatus) -> RunHolder | None:
        """Returns the TrainJob that this one was restored from, or another unfinished one with the same run."""
        former = self._keys.get(status.run.uid) if status.run is not None else None
        if former is not None and former != record.key and not self._jobs[former].is_finished:
            return RunHolder(former.namespace, former.name, self._jobs[former].phase, is_former=True)
        if record.run_key is None:
            return None
        others = [self._jobs[key] for key in self._runs.get(record.run_key, ()) if key != record.key]
        holders = [other for other in others if _holds_run(other, record)]
        if not holders:
            return None
        found = min(holders, key=_rank_holder)
        return RunHolder(found.key.namespace, found.key.name, found.phase)

    def _is_driver_shared(self, record: JobRecord) -> bool:
        """Returns whether another unfinished job of the namespace runs the driver of this job's attempt."""
        # The counter holds this job itself, if it is unfinished.
        own = not record.is_finished
        return self._drivers[record.key.namespace, record.driver] > own

    def drop_job(self, key: JobKey, uid: str, *, version: int = -1) -> None:
        """Forgets a job deleted as of `version`, unless its name already belongs to a new one."""
        self._tombstones.add(uid, version)
        record = self._jobs.get(key)
        if record is not None and record.uid == uid:
            self._count(record, -1)
            del self._jobs[key]
            self.queues.change_job(key, None)
        self._keys.pop(uid, None)
        self._forget(uid)

    def _forget(self, uid: str) -> None:
        self._rejections.pop(uid, None)
        self._announced.pop(uid, None)
        self._denials.pop(uid, None)

    def note_announced(self, uid: str, announced: Announced) -> None:
        """Remembers what Events have announced of a known job."""
        if uid in self._keys:
            self._announced[uid] = announced

    def begin_lead(self, *, at: datetime) -> None:
        """Begins to plan in this process. Another may have led before: it announced what is committed by now, and
        what this process noted about children is out of date."""
        self._led_since = at
        self._rejections.clear()
        self._denials.clear()
        self._pod_events.clear()
        for record in self._jobs.values():
            self._announced[record.uid] = record.announced

    def note_rejection(self, uid: str, problem: Problem, *, at: datetime) -> None:
        """Records that the API server rejected a child of a known job; `at` is the time by the API server's clock."""
        record = self._jobs.get(self._keys[uid]) if uid in self._keys else None
        if record is not None:
            before = self._rejection(record)
            tries, since = (before.tries + 1, before.since) if before else (1, at)
            self._rejections[uid] = Rejection(problem, record.attempt, tries, at=at, since=since)

    def _rejection(self, record: JobRecord) -> Rejection | None:
        """Returns the rejection in the job's current attempt."""
        found = self._rejections.get(record.uid)
        if found is not None and found.attempt == record.attempt:
            return found
        return None

    def note_pod_events(self, pod: PodView, events: PodEvents) -> None:
        """Remembers what the Events about a pod say."""
        self._pod_events[pod.uid] = events

    def note_denial(self, uid: str, denial: Denial) -> None:
        """Records that the API server denied to delete or to change this object of a known job."""
        if uid in self._keys:
            known = self._denials.setdefault(uid, {})
            # Its message stays: one with a time in it would be news each time.
            before = known.get(denial.name)
            if before is None or (denial.at - before.at).total_seconds() > DENIED_ROW_SECONDS:
                known[denial.name] = replace(denial, since=denial.began)
            else:
                known[denial.name] = replace(before, tries=before.tries + 1, at=denial.at)

    def forget_denial(self, uid: str, name: str) -> None:
        """Forgets a denial: the API server deleted or changed this object after all, or it is gone."""
        self._denials.get(uid, {}).pop(name, None)

    def forget_rejection(self, uid: str) -> None:
        """Forgets a rejection: every wanted child was created."""
        self._rejections.pop(uid, None)

    def change_pod(self, old: PodRecord | None, new: PodRecord | None) -> JobKey | None:
        """Takes note of a pod that was added, modified or deleted; returns the key of its job."""
        before = old.owner if old is not None else NO_OWNER
        after = new.owner if new is not None else NO_OWNER
        # Its owner changes when it is deleted, or orphaned by --cascade=orphan.
        if old is not None and before.uid and before != after:
            self._forget_pod(before, old.view.name)
        if new is not None and after.uid:
            self._pods[after][new.view.name] = new.view
        if old is not None:
            self._heads.discard(old.view.uid)
        if new is not None and after.uid and new.view.role == names.HEAD:
            self._heads.add(new.view.uid)
        owner = after if after.uid else before
        if (old is not None and old.claims.uid) or (new is not None and new.claims.uid):
            claimed = self._change_foreign(old, new)
            owner = owner if owner.uid else claimed
        key = self._keys.get(owner.uid) or self.queues.key_of(owner.uid)
        if key is not None and key.namespace == owner.namespace:
            return key
        return None

    def _change_foreign(self, old: PodRecord | None, new: PodRecord | None) -> Owner:
        """Returns the job that gained or lost a foreign pod; a change of one wakes nobody."""
        before = old.claims if old else NO_OWNER
        after = new.claims if new else NO_OWNER
        if before == after:
            return NO_OWNER
        if old is not None and before.uid:
            self._foreign[before].discard(old.view.name)
            # It may have had the name of one of the job's own.
            self._rejections.pop(before.uid, None)
            if not self._foreign[before]:
                del self._foreign[before]
        if new is not None and after.uid:
            self._foreign[after].add(new.view.name)
        if after.uid:
            return after
        return before

    def _forget_pod(self, owner: Owner, name: str) -> None:
        gone = self._pods[owner].pop(name, None)
        if gone is not None:
            self._pod_events.pop(gone.uid, None)
        if not self._pods[owner]:
            del self._pods[owner]

    def is_head(self, pod_uid: str) -> bool:
        """Returns whether it is the head pod of some job, in any attempt."""
        return pod_uid in self._heads

    def pods(self, owner: Owner) -> tuple[PodView, ...]:
        return tuple(self._pods.get(owner, {}).values())

    def count_pods(self, key: JobKey) -> int:
        record = self._jobs.get(key)
        if record is not None:
            return len(self._pods.get(record.owner, ()))
        return 0

    def observe(self, key: JobKey, *, now: datetime, settings: OperatorSettings) -> Observed | None:
        """Returns everything known about one job right now; None when there is no such job, or nothing to do for it."""
        record = self._jobs.get(key)
        if record is None or record.leaves_pods:
            return None
        spec, status = record.read()
        pods, foreign = self._divide_pods(record)
        return Observed(
            now=now,
            namespace=key.namespace,
            name=key.name,
            uid=record.uid,
            generation=record.generation,
            is_deleting=record.is_deleting,
            spec=spec,
            status=status,
            pods=pods,
            settings=settings,
            version=record.version,
            source=self._source(key.namespace, spec),
            rejection=self._rejection(record),
            denials=self._current_denials(record),
            foreign_pods=foreign,
            announced=self._announced.get(record.uid),
            led_since=self._led_since,
            is_driver_shared=self._is_driver_shared(record),
            queue=self.queues.look(record),
            run_holder=self._find_run_holder(record, status),
            is_from_backup=bool(record.restored_by),
        )

    def list_left_workloads(self, key: JobKey) -> list[tuple[WorkloadView, tuple[PodView, ...]]]:
        """Returns the deleted Workloads of jobs of this name that are gone, each with the pods of its job."""
        record = self._jobs.get(key)
        left = self.queues.list_remaining(key, record.uid if record is not None else None)
        return [(each, self.pods(Owner(key.namespace, each.job_uid))) for each in left]

    def _divide_pods(self, record: JobRecord) -> tuple[tuple[PodView, ...], tuple[str, ...]]:
        """Returns the job's own pods, and the names of the foreign ones."""
        pods = [pod.explain(self._pod_events.get(pod.uid)) for pod in self.pods(record.owner)]
        job = record.key.name
        uid = record.uid
        own = tuple(pod for pod in pods if has_own_name(pod, job, uid))
        foreign = self._foreign.get(record.owner, set())
        if len(own) < len(pods):
            foreign = foreign.union(pod.name for pod in pods) - {pod.name for pod in own}
        return own, tuple(sorted(foreign))

    def _current_denials(self, record: JobRecord) -> tuple[Denial, ...]:
        """Returns the denials, without those of pods and of a Workload that others have deleted meanwhile."""
        denials = self._denials.get(record.uid)
        if not denials:
            return ()
        pods = self._pods.get(record.owner, {})
        left = {name for name, pod in pods.items() if not pod.is_deleting}
        if self.queues.key_of(record.uid) is not None:
            left.add(names.workload_name(record.key.name, record.uid))
        gone = [name for name, each in denials.items() if each.kind in ("Pod", "Workload") and name not in left]
        for name in gone:
            del denials[name]
        return tuple(denials.values())

    def _source(self, namespace: str, spec: TrainJobSpec | InvalidSpec) -> JobStatus | None:
        """Returns the status of the job that spec.resumeFrom names, always one of the same namespace."""
        wanted = None if isinstance(spec, InvalidSpec) else spec.resume_from
        if wanted is None or wanted.train_job is None:
            return None
        found = self._jobs.get(JobKey(namespace, wanted.train_job))
        if found:
            return found.read().status
        return None
