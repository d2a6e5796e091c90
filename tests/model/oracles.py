"""Invariants of every schedule, read from all changes on the API server."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from railhead.api import names
from railhead.api.status import parse_status
from railhead.contract.times import parse_time
from railhead.planning.facts.deadlines import HOLD_SECONDS
from railhead.planning.pod_view import STUCK_SECONDS, UNANSWERED_SECONDS
from tests.model.api_server import Entry, ModelApiServer, Object
from tests.model.world import World, changes_of, count_change, driver_of, is_inert, is_live, name_of, role_of

WITHOUT_ATTEMPT = (None, "", "Suspended", "Queued")  # phases in which no attempt is under way
HOLDING_LIMIT = timedelta(seconds=HOLD_SECONDS + 10)  # plus the time to notice and to end the pods
STUCK = timedelta(seconds=STUCK_SECONDS)


class Watchman:
    """Checks each change as it happens: a violation that lasts only a moment is one too.

    Attributes:
        violations: not raised at once, for the operator that caused one would catch it.
    """

    def __init__(self, world: World, *, operators: int = 1) -> None:
        self._world = world
        self._is_alone = operators == 1
        self.violations: list[str] = []
        self._deleted: set[str] = set()
        world.api.changed = self.on_change

    def on_change(self, entry: Entry) -> None:
        if entry.plural != "pods" or is_inert(entry.object):
            return
        try:
            if entry.type == "ADDED":
                self._check_new_pod(entry.object)
            elif entry.object["metadata"].get("deletionTimestamp"):
                self._check_deleted_pod(entry.object)
        except AssertionError as error:
            self.violations.append(str(error))

    def check(self) -> None:
        assert not self.violations, self.violations
        twins = {attempt: heads for attempt, heads in self._world.writers.items() if len(heads) > 1}
        assert not twins, f"two heads of one attempt have committed: {twins}"

    def _check_new_pod(self, pod: Object) -> None:
        world, labels = self._world, pod["metadata"]["labels"]
        [owner] = pod["metadata"]["ownerReferences"]
        job = world.job_of(pod)
        if job is None:
            return  # created from a stale view of a deleted job: the garbage collector removes it
        status = job["status"]
        attempt, round_ = int(labels[names.LABEL_ATTEMPT]), int(labels[names.LABEL_ROUND])
        assert attempt <= status["attempt"], "a pod of an attempt that is not in the status"
        if attempt == status["attempt"]:
            assert round_ <= status["round"], "a pod of a round that is not in the status"
        reachable = [p for p in world.pods() if is_live(p) and not is_inert(p) and not self._is_fenced(p)]
        reachable = [p for p in reachable if not world.is_switched_off(p)]
        mine = [p for p in reachable if p["metadata"]["ownerReferences"][0]["uid"] == owner["uid"]]
        heads = [p["metadata"]["name"] for p in mine if role_of(p) == names.HEAD and not self._is_stale(p, attempt)]
        assert len(heads) <= 1, f"two live heads: {heads}"
        slots = [
            p["metadata"]["labels"][names.LABEL_SLOT]
            for p in mine
            if role_of(p) == names.WORKER
            and p["metadata"]["labels"][names.LABEL_ATTEMPT] == labels[names.LABEL_ATTEMPT]
            and not p["metadata"].get("deletionTimestamp")
            and p["metadata"]["name"] not in world.denied
        ]
        # One of two operators may pause between its write and its create for any time.
        assert len(slots) == len(set(slots)) or not self._is_alone, f"two live pods for one slot: {slots}"

    def _is_stale(self, head: Object, attempt: int) -> bool:
        """One of two operators may pause between its compare and its create: such a head is deleted before it runs."""
        is_older = int(head["metadata"]["labels"][names.LABEL_ATTEMPT]) < attempt
        return is_older and not self._is_alone and head["status"].get("phase") == "Pending"

    def _check_deleted_pod(self, pod: Object) -> None:
        """A single operator deletes no pod of a training group. With a second one, whose view is stale, a slot may
        have two pods, one of which is deleted."""
        world, metadata = self._world, pod["metadata"]
        is_known = metadata["uid"] in self._deleted or metadata["uid"] in world.disturbed
        self._deleted.add(metadata["uid"])
        job = world.job_of(pod)
        if is_known or job is None:
            return
        if job["metadata"].get("deletionTimestamp"):
            return  # the garbage collector deletes its pods
        status, attempt = job["status"], metadata["labels"][names.LABEL_ATTEMPT]
        is_lost = (status.get("failure") or {}).get("attempt") == status["attempt"]
        is_over = status.get("phase") in ("Suspending", "Suspended", "Queued", "Succeeded", "Failed") or is_lost
        if is_over or job["spec"].get("suspend") or attempt != str(status["attempt"]):
            return
        is_training = self._is_training(pod, job["spec"]["scaling"].get("numWorkers", -1))
        assert not (self._is_alone and is_training), f"{metadata['name']} belonged to a training group"

    def _is_training(self, pod: Object, workers: int) -> bool:
        """All pods of its attempt ran until now, including itself, and their driver trains."""
        world = self._world
        others = (
            p
            for p in world.pods()
            if p["metadata"]["name"] != pod["metadata"]["name"] and is_live(p) and not is_inert(p)
        )
        group = [pod, *(p for p in others if not p["metadata"].get("deletionTimestamp"))]
        group = [
            p
            for p in group
            if p["metadata"]["labels"][names.LABEL_ATTEMPT] == pod["metadata"]["labels"][names.LABEL_ATTEMPT]
            and p["status"].get("phase") == "Running"
        ]
        heads = [p for p in group if role_of(p) == names.HEAD]
        drivers = [world.drivers.get(head["metadata"]["uid"]) for head in heads]
        is_complete = pod in group and len(heads) == 1 and len(group) == workers + 1
        return is_complete and all(driver is not None and driver.state == "RUNNING" for driver in drivers)

    def _is_fenced(self, pod: Object) -> bool:
        """Its grace period ended so long ago that its node counts as unreachable."""
        by = parse_time(pod["metadata"].get("deletionTimestamp") or "")
        patience = timedelta(seconds=UNANSWERED_SECONDS)
        return by is not None and self._world.now >= by + patience


@dataclass
class Holding:
    """How long pods were held for others that a quota rejected."""

    world: World
    since: datetime | None = None
    longest: timedelta = timedelta()

    def measure(self) -> None:
        """Called when nothing can make progress."""
        world, live = self.world, [pod for pod in self.world.pods() if is_live(pod)]
        wanted = (world.job() or {}).get("spec", {}).get("scaling", {}).get("numWorkers", 0) + 1
        is_rejected = world.quota is not None and world.quota <= len(live) < wanted
        if not live or not is_rejected:
            self.since = None
            return
        self.since = self.since or world.now
        self.longest = max(self.longest, world.now - self.since)

    def check(self, *, crashes: int) -> None:
        """The time starts over for an operator that did not see the first rejection."""
        assert self.longest <= HOLDING_LIMIT * (1 + crashes), (
            f"pods were held for {self.longest} for others that were rejected"
        )


def check_drivers(world: World) -> None:
    """All pods of one attempt run the same driver."""
    drivers: dict[tuple[str, str], set[str]] = {}
    for entry in world.api.log:
        if entry.plural == "pods" and entry.type == "ADDED" and not is_inert(entry.object):
            metadata = entry.object["metadata"]
            attempt = (metadata["labels"][names.LABEL_JOB_UID], metadata["labels"][names.LABEL_ATTEMPT])
            drivers.setdefault(attempt, set()).add(driver_of(entry.object))
    assert all(len(found) == 1 for found in drivers.values()), drivers


def check_images(world: World) -> None:
    """All pods of one attempt have the image that the spec had when the attempt began, whoever changed it then."""
    begun = {
        (after["metadata"]["uid"], str(after["status"]["attempt"])): after["spec"]["image"]
        for before, after in changes_of(world.api.log, "trainjobs")
        if after["status"]["attempt"] > before["status"]["attempt"]
    }
    for entry in world.api.log:
        if entry.plural == "pods" and entry.type == "ADDED" and not is_inert(entry.object):
            labels = entry.object["metadata"]["labels"]
            began = begun[labels[names.LABEL_JOB_UID], labels[names.LABEL_ATTEMPT]]
            assert entry.object["spec"]["containers"][0]["image"] == began, f"{name_of(entry.object)} has another image"


def check_counters(world: World) -> None:
    """Restart counters change only in the write that raises attempt or round; those of restarts in place together
    with `countedRestarts`. What the metric counts is derived from these writes."""
    for before, after in changes_of(world.api.log, "trainjobs"):
        old, new = before["status"], after["status"]
        losses = count_change(old, new)
        in_place = losses.pop("inPlace")
        counted = losses.total()
        started = new["attempt"] - old["attempt"]
        raised = new["round"] - old["round"] if not started else 0
        assert started in (0, 1) and raised in (0, 1), "attempt and round rise one by one"
        if started:
            assert new["round"] == 0, (old, new)
            failure = old.get("failure") or {}
            was_lost = failure.get("attempt") == old["attempt"] > 0
            is_free = failure.get("class") == "Fenced" if was_lost else old.get("phase") in WITHOUT_ATTEMPT
            assert counted == (0 if is_free else 1), (old, new)
        else:
            is_smaller = _desired(new) < _desired(old)  # a round of its own
            is_refused = _refused(new) > _refused(old)  # pods that a node refuses never ran
            assert counted == (0 if is_smaller or is_refused else raised), (old, new)
        spent = _spent(new) - _spent(old)
        assert spent <= counted + in_place, "a restart counts once, as a failure or as a disruption"


def _refused(status: Object) -> int:
    return int((status.get("workerLosses") or {}).get("refused", 0))


def check_attempts(log: list[Entry], *, operators: int = 1) -> None:
    """`attempts` has the last ten, each with its end as soon as the status shows it; an ended one stays as it is.

    Of two operators, one that does not know yet that an attempt was lost may open it again for a moment.
    """
    known: dict[tuple[str, str, int], Object] = {}
    rounds: Counter[tuple[str, str, int]] = Counter()
    changes = list(changes_of(log, "trainjobs"))
    for _, job in changes if operators == 1 else changes[-1:]:
        status, number = job["status"], job["status"].get("attempt", 0)
        found = status.get("attempts") or []
        assert [each["number"] for each in found] == list(range(max(1, number - 9), number + 1)), status
        for each in found:
            times = [each[key] for key in ("startTime", "runningTime", "completionTime") if key in each]
            assert times[0] == each["startTime"] and times == sorted(times), each
            assert ("completionTime" in each) == bool(each["class"]) == (each["number"] < number or _is_over(status))
            is_restored = "formerUids" in status.get("run", {}) or status["run"]["uid"] != job["metadata"]["uid"]
            assert 0 < each["generation"] <= job["metadata"]["generation"] or is_restored, each
            key = (job["metadata"]["uid"], run_of(status), each["number"])
            assert each["rounds"] >= rounds[key], f"attempt {each['number']} loses rounds: {status}"
            rounds[key] = each["rounds"]
            if each["class"]:
                assert known.setdefault(key, each) == each
        assert all(one["completionTime"] <= other["startTime"] for one, other in pairwise(found)), found
        assert not found or found[-1]["rounds"] == status["round"], status
        assert len(json.dumps(found, separators=(",", ":"))) <= 4096


def check_goodput(api: ModelApiServer, *, operators: int = 1) -> set[str]:
    """Returns the causes of lost time. The seconds of each status add up to the time since the first attempt; they
    ride in other writes, the time never goes back, and an ended job's stays as it is.

    A write whose answer was lost is repeated later, and then changes nothing but the time. A restored job
    continues the account of its run, as the backup has it.
    """
    for operations in api.status_patches:
        paths = {operation["path"] for operation in operations if operation["op"] != "test"}
        assert paths != {"/status/goodput"}, "time that passes is no reason for a write"
    begun: dict[str, datetime] = {}
    causes: set[str] = set()
    losses: defaultdict[str, set[tuple[str, int, int]]] = defaultdict(set)
    for before, after in changes_of(api.log, "trainjobs"):
        old, new = before["status"], after["status"]
        known, found = old.get("goodput"), new.get("goodput")
        if run_of(old) != run_of(new):
            known = None
        account = run_of(new) or after["metadata"]["uid"]  # a queued job that has not begun has no run
        lost = losses[account]
        lost |= _list_losses(new)
        if found is None:
            assert not new.get("attempt") and known is None, new
            continue
        assert found["productiveSeconds"] + sum(found["lostSeconds"].values()) == found["wallSeconds"], found
        assert min(found["productiveSeconds"], *found["lostSeconds"].values()) >= 0, found
        assert 0 <= found["lostGPUSeconds"] <= found["gpuSeconds"], found
        assert sum(found.get("interruptions", {}).values()) <= len(lost), f"of {lost}: {found}"
        start = datetime.fromisoformat(found["time"]) - timedelta(seconds=found["wallSeconds"])
        assert begun.setdefault(account, start) == start, "no second is counted twice or left out"
        if found != known:
            assert known is None or old["phase"] not in ("Succeeded", "Failed"), (known, found)
        if operators == 1 and known is not None:
            assert found["wallSeconds"] >= known["wallSeconds"], (known, found)
        causes |= {cause for cause, seconds in found["lostSeconds"].items() if seconds}
    return causes


def run_of(status: Object) -> str:
    """The name of its run; a restored status brings another one than the job has begun."""
    return str((status.get("run") or {}).get("name", ""))


def _list_losses(status: Object) -> set[tuple[str, int, int]]:
    """What has interrupted the job until now, as far as this status shows it: each loss is the same in every status."""
    attempt = status.get("attempt", 0)
    failed = (status.get("failure") or {}).get("attempt", 0)
    in_place = (status.get("countedRestarts") or {}).get("number", 0)
    found = {("round", attempt, each + 1) for each in range(status.get("round", 0))}
    found |= {("in place", attempt, each + 1) for each in range(in_place)}
    return found | ({("attempt", failed, 0)} if failed else set())


def _is_over(status: Object) -> bool:
    """The current attempt has ended."""
    is_lost = (status.get("failure") or {}).get("attempt") == status["attempt"]
    return is_lost or status["phase"] in ("Suspended", "Queued", "Succeeded", "Failed")


def _desired(status: Object) -> int:
    return int((status.get("workers") or {}).get("desired", 0))


def _spent(status: Object) -> int:
    restarts = status.get("restarts") or {}
    return int(restarts.get("application", 0) + restarts.get("disruptions", 0))


def check_old_drivers(world: World) -> None:
    """Only those of unfinished jobs and of the operator's own version are left."""
    job = world.job()
    is_used = job is not None and not parse_status(job.get("status")).is_finished
    used = {world.settings.bundle_name, (job or {}).get("status", {}).get("driver") if is_used else None}
    found = {name for plural, _, name in world.api.objects if plural == "configmaps" and name.startswith("railhead-")}
    assert found <= used, f"drivers that no job uses: {found - used}"


def check_stuck_pods(world: World) -> None:
    """The status of a settled job lists exactly the pods that should have been gone for minutes."""
    job = world.job()
    if job is None:
        return
    stamps = {
        name_of(pod): pod["metadata"].get("deletionTimestamp")
        for pod in world.pods()
        if pod["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]
    }
    overdue = {name: at for name, at in stamps.items() if (by := parse_time(at or "")) and by + STUCK <= world.now}
    listed = {pod["name"]: pod["since"] for pod in job["status"].get("stuckPods", [])}
    assert listed == overdue


def check_gone(world: World, *, phase: str) -> None:
    """After a job's TTL has deleted it."""
    last = [entry for entry in world.api.log if entry.plural == "trainjobs"][-1]
    assert (last.type, last.object["status"]["phase"]) == ("DELETED", phase)
    assert not world.children, f"a deleted job still has {world.children}"


def check_end(world: World, *, phase: str = "Succeeded", may_leave_inputs: bool = False) -> None:
    """When a job has settled.

    `may_leave_inputs`: an operator was restarted that knew of a denied delete of an old input; garbage collection
    removes it with its job.
    """
    status = world.status()
    assert status.get("phase") == phase, status
    assert status["observedGeneration"] == (world.job() or {})["metadata"]["generation"]
    workers = [p["metadata"]["name"] for p in world.pods(names.WORKER)]
    assert not workers, f"a settled job holds {workers}"
    assert not [p for p in world.pods(names.HEAD) if is_live(p)], "a settled job has a live head"
    if "cleanUpTime" in status:
        allowed = ["workloads/"]  # its Workload says how it ended
        if may_leave_inputs:
            allowed += ["configmaps/", "secrets/"]
        left = [each for each in world.children if not each.startswith(tuple(allowed))]
        assert not left, f"a cleaned-up job still has {left}"
    if phase == "Succeeded":
        assert [epoch for _, epoch in world.commits] == list(range(world.epochs)), world.commits
