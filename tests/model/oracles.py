"""What must hold in every schedule, read from everything that the API server was told."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from railhead.api import names
from railhead.api.status import parse_status
from railhead.contract.times import parse_time
from railhead.planning.facts.partial_gang import HOLD_SECONDS
from railhead.planning.pod_view import STUCK_SECONDS, UNANSWERED_SECONDS
from tests.model.api_server import Entry, Object
from tests.model.world import World, changes_of, driver_of, is_live, name_of, role_of

HOLDING_LIMIT = timedelta(seconds=HOLD_SECONDS + 10)  # and what it takes to see it and to end
STUCK = timedelta(seconds=STUCK_SECONDS)
NO_RESTARTS = {"application": 0, "infrastructure": 0, "withoutProgress": 0}


class Watchman:
    """Looks at each change when it happens: what was wrong for a moment only is wrong too.

    Attributes:
        wrong: what was seen. It is not raised at once, for it would end in the operator that did it.
    """

    def __init__(self, world: World, *, operators: int = 1) -> None:
        self._world = world
        self._is_alone = operators == 1
        self.wrong: list[str] = []
        self._deleted: set[str] = set()
        world.api.changed = self.look

    def look(self, entry: Entry) -> None:
        if entry.plural != "pods":
            return
        try:
            if entry.type == "ADDED":
                self._check_new_pod(entry.object)
            elif entry.object["metadata"].get("deletionTimestamp"):
                self._check_deleted_pod(entry.object)
        except AssertionError as error:
            self.wrong.append(str(error))

    def check(self) -> None:
        assert not self.wrong, self.wrong

    def _check_new_pod(self, pod: Object) -> None:
        world, labels = self._world, pod["metadata"]["labels"]
        [owner] = pod["metadata"]["ownerReferences"]
        job = world.job(owner["name"])
        if job is None or job["metadata"]["uid"] != owner["uid"]:
            return  # made from a view of a job that is gone: the garbage collector takes it
        status = job["status"]
        attempt, round_ = int(labels[names.LABEL_ATTEMPT]), int(labels[names.LABEL_ROUND])
        assert attempt <= status["attempt"], "a pod of an attempt that the status does not intend"
        if attempt == status["attempt"]:
            assert round_ <= status["round"], "a pod of a round that the status does not intend"
        reachable = [p for p in world.pods() if is_live(p) and not self._is_fenced(p)]
        mine = [p for p in reachable if p["metadata"]["ownerReferences"][0]["uid"] == owner["uid"]]
        heads = [p["metadata"]["name"] for p in mine if role_of(p) == names.HEAD and not self._is_stale(p, attempt)]
        assert len(heads) <= 1, f"two live heads: {heads}"
        slots = [
            p["metadata"]["labels"][names.LABEL_SLOT]
            for p in mine
            if role_of(p) == names.WORKER
            and p["metadata"]["labels"][names.LABEL_ATTEMPT] == labels[names.LABEL_ATTEMPT]
            and not p["metadata"].get("deletionTimestamp")
            and p["metadata"]["name"] not in world.unreachable
        ]
        # Of two operators one may be between its write and its create for as long as it likes.
        assert len(slots) == len(set(slots)) or not self._is_alone, f"two live pods for one slot: {slots}"

    def _is_stale(self, head: Object, attempt: int) -> bool:
        """Of two operators one may be between its compare and its create: such a head is deleted before it runs."""
        is_older = int(head["metadata"]["labels"][names.LABEL_ATTEMPT]) < attempt
        return is_older and not self._is_alone and head["status"].get("phase") == "Pending"

    def _check_deleted_pod(self, pod: Object) -> None:
        """An operator that is alone deletes no pod of a group that trains. With a second one, whose view is stale, a
        slot may have two pods, of which one goes."""
        world, metadata = self._world, pod["metadata"]
        is_known = metadata["uid"] in self._deleted or metadata["uid"] in world.disturbed
        self._deleted.add(metadata["uid"])
        job = world.job(metadata["ownerReferences"][0]["name"])
        if is_known or job is None or job["metadata"]["uid"] != metadata["ownerReferences"][0]["uid"]:
            return
        if job["metadata"].get("deletionTimestamp"):
            return  # the garbage collector deletes its pods
        status, attempt = job["status"], metadata["labels"][names.LABEL_ATTEMPT]
        is_lost = (status.get("failure") or {}).get("attempt") == status["attempt"]
        is_over = status.get("phase") in ("Suspending", "Suspended", "Succeeded", "Failed") or is_lost
        if is_over or job["spec"].get("suspend") or attempt != str(status["attempt"]):
            return
        is_training = self._is_training(pod, job["spec"]["scaling"]["numWorkers"])
        assert not (self._is_alone and is_training), f"{metadata['name']} belonged to a group that trains"

    def _is_training(self, pod: Object, workers: int) -> bool:
        """All pods of its attempt run, itself up to now included, and their driver trains."""
        world = self._world
        others = (p for p in world.pods() if p["metadata"]["name"] != pod["metadata"]["name"] and is_live(p))
        group = [pod, *(p for p in others if not p["metadata"].get("deletionTimestamp"))]
        group = [
            p
            for p in group
            if p["metadata"]["labels"][names.LABEL_ATTEMPT] == pod["metadata"]["labels"][names.LABEL_ATTEMPT]
            and p["status"].get("phase") == "Running"
        ]
        heads = [p for p in group if role_of(p) == names.HEAD]
        drivers = [world.drivers.get(head["metadata"]["uid"]) for head in heads]
        is_whole = len(heads) == 1 and len(group) == workers + 1
        return is_whole and all(driver is not None and driver.state == "RUNNING" for driver in drivers)

    def _is_fenced(self, pod: Object) -> bool:
        """Its grace period is over for so long that its node counts as one that does not answer, also if it is late."""
        by = parse_time(pod["metadata"].get("deletionTimestamp") or "")
        patience = timedelta(seconds=UNANSWERED_SECONDS)
        return by is not None and self._world.now >= by + patience


@dataclass
class Holding:
    """How long pods were held for others that a quota refused."""

    world: World
    since: datetime | None = None
    longest: timedelta = timedelta()

    def look(self) -> None:
        """Whenever everything stands still for a moment."""
        world, live = self.world, [pod for pod in self.world.pods() if is_live(pod)]
        wanted = (world.job() or {}).get("spec", {}).get("scaling", {}).get("numWorkers", 0) + 1
        is_refused = world.quota is not None and world.quota <= len(live) < wanted
        if not live or not is_refused:
            self.since = None
            return
        self.since = self.since or world.now
        self.longest = max(self.longest, world.now - self.since)

    def check(self, *, crashes: int) -> None:
        """The time counts again for an operator that did not see the first rejection."""
        assert self.longest <= HOLDING_LIMIT * (1 + crashes), (
            f"pods were held for {self.longest} for others that were refused"
        )


def check_drivers(world: World) -> None:
    """All pods of one attempt run the same driver."""
    drivers: dict[tuple[str, str], set[str]] = {}
    for entry in world.api.log:
        if entry.plural == "pods" and entry.type == "ADDED":
            metadata = entry.object["metadata"]
            attempt = (metadata["labels"][names.LABEL_JOB_UID], metadata["labels"][names.LABEL_ATTEMPT])
            drivers.setdefault(attempt, set()).add(driver_of(entry.object))
    assert all(len(found) == 1 for found in drivers.values()), drivers


def check_counters(world: World) -> None:
    """Counters of restarts change in the write that raises attempt or round, and in no other; those of restarts in
    place with what the status knows of them."""
    for before, after in changes_of(world.api.log, "trainjobs"):
        old, new = before["status"], after["status"]
        counted = _total(new) - _total(old)
        began = new["attempt"] - old["attempt"]
        raised = new["round"] - old["round"] if not began else 0
        assert began in (0, 1) and raised in (0, 1), "attempt and round rise one by one"
        if began:
            assert new["round"] == 0, (old, new)
            assert counted == (0 if old.get("phase") in (None, "", "Suspended") else 1), (old, new)
        else:
            assert counted == raised, (old, new)
        in_place = _in_place(new) - _in_place(old)
        known = new.get("countedRestarts") or {}, old.get("countedRestarts") or {}
        assert in_place == (0 if began else known[0].get("number", 0) - known[1].get("number", 0)), (old, new)
        spent = _spent(new) - _spent(old)
        assert spent <= counted + in_place, "a restart is one failure or one disruption, once"


def _in_place(status: Object) -> int:
    return int((status.get("restarts") or {}).get("inPlace", 0))


def _total(status: Object) -> int:
    restarts = {**NO_RESTARTS, **(status.get("restarts") or {})}
    return int(restarts["application"] + restarts["infrastructure"] + restarts.get("startup", 0))


def _spent(status: Object) -> int:
    failures, disruptions = (status.get("budget") or {}), (status.get("disruptions") or {})
    return int(failures.get("failures", 0) + disruptions.get("total", 0))


def check_old_drivers(world: World) -> None:
    """None is left that no unfinished job uses; that of the operator's own version stays."""
    job = world.job()
    is_used = job is not None and not parse_status(job.get("status")).is_finished
    used = {world.settings.bundle_name, (job or {}).get("status", {}).get("driver") if is_used else None}
    found = {name for plural, _, name in world.api.objects if plural == "configmaps" and name.startswith("railhead-")}
    assert found <= used, f"drivers that no job uses: {found - used}"


def check_stuck_pods(world: World) -> None:
    """Of a job that has come to rest: the status lists exactly those that should have been gone for minutes."""
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
    """Of a job that its TTL has deleted."""
    last = [entry for entry in world.api.log if entry.plural == "trainjobs"][-1]
    assert (last.type, last.object["status"]["phase"]) == ("DELETED", phase)
    assert not world.children, f"a job that is gone has {world.children}"


def check_end(world: World, *, phase: str = "Succeeded") -> None:
    """Of a job that has come to rest."""
    status = world.status()
    assert status.get("phase") == phase, status
    assert status["observedGeneration"] == (world.job() or {})["metadata"]["generation"]
    workers = [p["metadata"]["name"] for p in world.pods(names.WORKER)]
    assert not workers, f"a job at rest holds {workers}"
    assert not [p for p in world.pods(names.HEAD) if is_live(p)], "a job at rest has a live head"
    if "cleanUpTime" in status:
        assert not world.children, f"a job that was cleaned up has {world.children}"
    if phase == "Succeeded":
        assert [epoch for _, epoch in world.commits] == list(range(world.epochs)), world.commits
