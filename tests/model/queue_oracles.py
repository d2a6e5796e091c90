"""What must hold for a job in a queue, read from each change on the API server."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

from railhead.api import names
from railhead.contract.times import parse_time
from railhead.planning.pod_view import UNANSWERED_SECONDS
from tests.kueue.workload import FINALIZER, Object, holds_quota, is_active, is_true
from tests.model.api_server import Entry
from tests.model.kueue import WORKLOADS, owns
from tests.model.world import World, is_inert, is_live, name_of

SEEN = ("QuotaReserved", "Admitted", "Evicted", "given back", "held", "lifted", "deleted", "Finished", "Kueue removed")


def is_admitted(workload: Object) -> bool:
    """Whether pods may be created for it."""
    if "deletionTimestamp" in workload["metadata"] or not is_active(workload):
        return False
    ended = is_true(workload, "Evicted") or is_true(workload, "Finished")
    return not ended and is_true(workload, "QuotaReserved") and is_true(workload, "Admitted")


class QueueWatchman:
    """Judges jobs of the namespace that have a queue. With a stale view, an operator may create pods after an eviction.

    Attributes:
        violations: not raised at once, for the operator that caused one would catch it.
        seen: counts what happened to Workloads, by `SEEN`.
    """

    def __init__(self, world: World, *, sees_all: bool = True) -> None:
        self._world, self._sees_all = world, sees_all
        self.violations: list[str] = []
        self.seen: Counter[str] = Counter()
        self._admitted_by: dict[tuple[str, str], str] = {}  # the Workload's uid by the job's uid and the attempt
        self._before: dict[str, Object] = {}
        self._next, world.api.changed = world.api.changed, self.on_change

    def on_change(self, entry: Entry) -> None:
        self._next(entry)
        try:
            if entry.plural == "pods" and entry.type == "ADDED" and self._sees_all and not is_inert(entry.object):
                self._check_new_pod(entry.object)
            elif entry.plural == WORKLOADS:
                self._check_workload(entry)
            elif entry.plural == "resourceflavors":
                self.seen["Kueue removed"] += entry.type == "DELETED"
        except AssertionError as error:
            self.violations.append(str(error))

    def check(self) -> None:
        """When everything has settled."""
        assert not self.violations, self.violations
        for (plural, namespace, name), workload in self._world.api.objects.items():
            if plural != WORKLOADS or not workload["metadata"].get("ownerReferences"):
                continue
            [owner] = workload["metadata"]["ownerReferences"]
            job = self._world.job(owner["name"], namespace=namespace)
            assert job is not None and job["metadata"]["uid"] == owner["uid"], f"{name} outlives its job"
            if not self._list_live_pods(owner["uid"]):
                assert not holds_quota(_complete(workload)), f"{name} holds quota for no pods: {workload}"

    def _check_new_pod(self, pod: Object) -> None:
        """It has an admission that is current, and all pods of an attempt have the same."""
        job = self._world.job_of(pod)
        if job is None or not _find_queue(job) or self._world.kueue is None:
            return
        uid, attempt = job["metadata"]["uid"], pod["metadata"]["labels"][names.LABEL_ATTEMPT]
        workload = self._world.kueue.find(job)
        assert workload is not None, f"{name_of(pod)} was created without a Workload"
        assert is_admitted(_complete(workload)), f"{name_of(pod)} was created without an admission: {workload}"
        by = self._admitted_by.setdefault((uid, attempt), workload["metadata"]["uid"])
        assert by == workload["metadata"]["uid"], f"two Workloads are admitted for attempt {attempt}"

    def _check_workload(self, entry: Entry) -> None:
        new, owners = _complete(entry.object), entry.object["metadata"].get("ownerReferences") or ()
        uid, kueue = new["metadata"]["uid"], self._world.kueue
        old = self._before.get(uid)
        self._before[uid] = new
        if not owners or kueue is None:
            return
        job_uid = owners[0]["uid"]
        if entry.type == "ADDED":
            assert job_uid not in kueue.held, "a new Workload undoes an administrator's hold"
            others = [each for (kind, _, _), each in self._world.api.objects.items() if kind == WORKLOADS]
            assert sum(owns(job_uid, each) for each in others) == 1, "a job has two Workloads"
        if old is None:
            return
        self._count(old, new)
        if is_active(new) and not is_active(old):
            assert job_uid not in kueue.held, "the operator lifts an administrator's hold"
        had_finalizer, has_finalizer = (FINALIZER in (each["metadata"].get("finalizers") or ()) for each in (old, new))
        is_gone = entry.type == "DELETED" or (had_finalizer and not has_finalizer)
        if holds_quota(old) and (is_gone or not holds_quota(new)):
            pods = self._list_live_pods(job_uid)
            assert not pods, f"the quota is given back while {pods} run"

    def _count(self, old: Object, new: Object) -> None:
        for type_ in ("QuotaReserved", "Admitted", "Evicted", "Finished"):
            self.seen[type_] += is_true(new, type_) and not is_true(old, type_)
        self.seen["given back"] += holds_quota(old) and not holds_quota(new)
        self.seen["held"] += is_active(old) and not is_active(new)
        self.seen["lifted"] += is_active(new) and not is_active(old)
        is_deleting = "deletionTimestamp" in new["metadata"] and "deletionTimestamp" not in old["metadata"]
        self.seen["deleted"] += is_deleting

    def _list_live_pods(self, job_uid: str) -> list[str]:
        """Without those whose node has not ended them long after their grace period: status.stuckPods has them."""
        return [
            name_of(pod)
            for pod in self._world.pods()
            if pod["metadata"]["labels"].get(names.LABEL_JOB_UID) == job_uid
            and is_live(pod)
            and not is_inert(pod)
            and not self._is_given_up(pod)
        ]

    def _is_given_up(self, pod: Object) -> bool:
        by = parse_time(pod["metadata"].get("deletionTimestamp") or "")
        return self._world.is_switched_off(pod) or (
            by is not None and self._world.now >= by + timedelta(seconds=UNANSWERED_SECONDS)
        )


def _find_queue(job: Object) -> str:
    return str((job["spec"].get("scheduling") or {}).get("queueName") or "")


def _complete(workload: Object) -> Object:
    """A Workload that Kueue has not looked at yet has no status."""
    return {"status": {}, **workload}
