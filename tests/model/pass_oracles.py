"""What must hold after every pass of the operator, whatever the actors of tests/model/actors do.

Each oracle is one class. tests/model/test_oracles.py shows what some of them accept and catch.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from railhead.api import names
from railhead.planning.facts.deadlines import OUTAGE_SECONDS
from railhead.planning.facts.pod_failure import LossReason
from railhead.planning.facts.reasons import EXCEEDS_QUOTA, PARTIAL_START, QUOTA_EXCEEDED, REJECTIONS, RELEASED
from tests.model.api_server import Entry, Object, Place
from tests.model.oracles import run_of
from tests.model.world import NAMESPACE, World, count_change, is_inert, is_live, name_of, role_of

FINISHED = ("Succeeded", "Failed")
AT_REST = (*FINISHED, "Suspending", "Suspended", "Queued")
MOST_PASSES = 30  # of one job while nothing but the operator acts and no time passes
REFUSED_AT_ONCE = 8
NEXT_ATTEMPT = timedelta(seconds=1000)  # a head's grace period of 615 s, 35 s more, and a backoff of 300 s
HELD = timedelta(seconds=OUTAGE_SECONDS + 60)


@dataclass
class Circumstances:
    """What the schedule does, as far as oracles depend on it.

    Attributes:
        refusing: seconds for which some node has refused pods, and how often that began.
        away: for how long the operator did not run.
        are_requests_denied: some actor of the schedule denies the operator's requests.
        are_releases_denied: whether some actor denies now what releases pods.
        healthy_since: since when no actor acts; None = they do.
        asked: names of the objects that the operator has tried to delete.
    """

    world: World
    refusing: Callable[[], tuple[float, int]] = lambda: (0.0, 0)
    away: timedelta = timedelta()
    are_requests_denied: bool = False
    are_releases_denied: Callable[[], bool] = lambda: False
    healthy_since: datetime | None = None
    asked: set[str] = field(default_factory=set)
    _pods: dict[str, tuple[Object, ...]] = field(default_factory=dict)
    _pods_at: int = -1  # the version of the API server

    def pods_of(self, job: Object) -> tuple[Object, ...]:
        """Returns the job's own pods. All oracles ask for them, mostly when nothing has changed."""
        if self._pods_at != self.world.api.version:
            self._pods.clear()
            self._pods_at = self.world.api.version
        uid = job["metadata"]["uid"]
        if uid not in self._pods:
            self._pods[uid] = tuple(pod for pod in self.world.pods() if is_own(pod, job))
        return self._pods[uid]


class Oracle:
    """Raises AssertionError when its rule is broken."""

    def __init__(self, now: Circumstances) -> None:
        self.now, self.world = now, now.world

    def on_request(self, method: str, place: Place) -> None:
        """Before the API server executes a request of the operator that writes."""

    def on_change(self, entry: Entry) -> None:
        """After each change of an object, by anyone."""

    def after_pass(self) -> None:
        """After each pass over a job."""

    def at_rest(self) -> None:
        """The operator has nothing more to do at this time."""

    def jobs(self) -> list[Object]:
        return self.world.api.objects.of("trainjobs")

    def pods_of(self, job: Object) -> Sequence[Object]:
        return self.now.pods_of(job)

    def gang_of(self, job: Object) -> list[Object]:
        """The pods with which the job can train now. One of an earlier attempt, whose delete a policy denies or whose
        node is dead, can live for hours and never joins."""
        attempt = str(job["status"].get("attempt", 0))
        pods = (pod for pod in self.pods_of(job) if pod["metadata"]["labels"][names.LABEL_ATTEMPT] == attempt)
        return [pod for pod in pods if is_live(pod) and "deletionTimestamp" not in pod["metadata"]]


def is_own(pod: Object, job: Object) -> bool:
    """Made by the operator for this job."""
    owners = pod["metadata"].get("ownerReferences") or []
    return not is_inert(pod) and any(owner["uid"] == job["metadata"]["uid"] for owner in owners)


def find_slot(pod: Object) -> int:
    """The slot of a worker pod; -1 for a head."""
    return int(pod["metadata"]["labels"].get(names.LABEL_SLOT, -1))


def is_lost(job: Object) -> bool:
    """The status records how the current attempt ended."""
    status = job["status"]
    return bool((status.get("failure") or {}).get("attempt") == status.get("attempt", 0) > 0)


def find_head(world: World, job: Object | None) -> Object | None:
    """The head pod of the job's current attempt."""
    if job is None:
        return None
    metadata, attempt = job["metadata"], job["status"].get("attempt", 0)
    return world.find_pod(names.head_name(metadata["name"], metadata["uid"], attempt))


def list_missed(job: Object | None) -> set[str]:
    """The names of the pods that the driver does not reach, by its last report that arrived. Their network may have
    been repaired since then, which the operator cannot know."""
    if job is None:
        return set()
    return set((job["status"].get("progress") or {}).get("lostPods") or ())


class InfrastructureLosses:
    """How often each job restarted from a loss of the infrastructure, by the changes of its status."""

    def __init__(self) -> None:
        self._last: dict[str, Object] = {}
        self._counts: Counter[str] = Counter()

    def add(self, job: Object) -> int:
        """Returns the job's count with this change."""
        uid, new = job["metadata"]["uid"], job.get("status") or {}
        old = self._last.get(uid, {})
        if run_of(old) == run_of(new):  # a restored status tells what happened before
            self._counts[uid] += count_change(old, new)["infrastructure"]
        self._last[uid] = new
        return self._counts[uid]

    def of(self, uid: str) -> int:
        return self._counts[uid]


class HealthyPodsStay(Oracle):
    """A pod that runs and that no actor has touched keeps its uid as long as its attempt lasts. The attempt of such a
    head ends only if the API server rejects pods that it needs, if they find no nodes, or if it seems to be cut
    off."""

    def __init__(self, now: Circumstances) -> None:
        super().__init__(now)
        self._judged: set[tuple[str, int]] = set()

    def on_request(self, method: str, place: Place) -> None:
        if method != "DELETE" or place[0] != "pods":
            return
        pod = self.world.api.objects.get(place)
        if pod is None:
            return
        assert not is_inert(pod), f"the operator deletes {name_of(pod)}, which is not its own"
        job = self.world.job_of(pod)
        if job is None or not self._is_healthy(pod) or is_lost(job) or job["status"].get("phase") in AT_REST:
            return
        labels, status = pod["metadata"]["labels"], job["status"]
        is_surplus = find_slot(pod) >= (status.get("workers") or {}).get("desired", 0)
        is_current = labels[names.LABEL_ATTEMPT] == str(status["attempt"])
        is_needed = is_current and not is_surplus and not self._has_twin(pod, job)
        assert not is_needed or job["spec"].get("suspend"), f"{name_of(pod)} was healthy"

    def on_change(self, entry: Entry) -> None:
        if entry.plural != "trainjobs" or entry.type != "MODIFIED" or not is_lost(entry.object):
            return
        job, failure = entry.object, entry.object["status"]["failure"]
        attempt = (job["metadata"]["uid"], failure["attempt"])
        if attempt in self._judged:
            return  # what happens to its head after it was lost is of no interest
        self._judged.add(attempt)
        if failure["reason"] in REJECTIONS | RELEASED or job["spec"].get("suspend"):
            return
        head = find_head(self.world, job)
        if head is None or job["status"]["phase"] in FINISHED:
            return
        losses = (job["status"].get("workerLosses") or {}).get("rounds", 0)
        if failure["reason"] == LossReason.HEAD_CUT_OFF and self._looks_cut_off(job, is_again=losses > 0):
            return
        assert losses >= 20 or not self._is_healthy(head), f"{name_of(head)} was healthy: {failure}"

    def _has_twin(self, pod: Object, job: Object) -> bool:
        """Another healthy pod has its slot: the API server had denied to delete this one while it did not run."""
        if name_of(pod) not in self.world.denied:
            return False
        twins = [each for each in self.gang_of(job) if find_slot(each) == find_slot(pod) and each is not pod]
        return any(self._is_healthy(twin) for twin in twins)

    def _looks_cut_off(self, job: Object, *, is_again: bool) -> bool:
        """The driver misses workers of several nodes at once, or of one after others were lost."""
        missed = [pod for pod in self.pods_of(job) if name_of(pod) in list_missed(job)]
        return len({pod["spec"]["nodeName"] for pod in missed}) > (0 if is_again else 1)

    def _is_healthy(self, pod: Object) -> bool:
        world, metadata = self.world, pod["metadata"]
        is_reachable = metadata["name"] not in world.silent | list_missed(world.job_of(pod))
        is_untouched = is_reachable and metadata["uid"] not in world.disturbed
        return is_untouched and pod["status"].get("phase") == "Running" and "deletionTimestamp" not in metadata


class CutOffHeadsCostLittle(Oracle):
    """While a head reaches none of its workers, they are replaced at most once; pods that a node refuses never ran."""

    def __init__(self, now: Circumstances) -> None:
        super().__init__(now)
        self._first: dict[str, int] = {}
        self._losses = InfrastructureLosses()

    def on_change(self, entry: Entry) -> None:
        if entry.plural != "trainjobs" or entry.type != "MODIFIED":
            return
        head = find_head(self.world, entry.object)
        lost = self._losses.add(entry.object)
        if head is not None and head["metadata"]["uid"] in self.world.cut:
            first = self._first.setdefault(head["metadata"]["uid"], lost)
            assert lost <= first + 1, f"a head that is cut off costs {lost - first} rounds"


class NobodyIsBlamed(Oracle):
    """The job's own code never fails here: the job is never Failed, and nothing counts against its backoffLimit."""

    def on_change(self, entry: Entry) -> None:
        if entry.plural != "trainjobs" or entry.type == "DELETED":
            return
        status = entry.object["status"]
        assert status.get("phase") != "Failed", f"the job failed: {status.get('failure')}"
        assert not (status.get("restarts") or {}).get("application"), f"the job is blamed: {status.get('failure')}"


class OnlyLossesCount(Oracle):
    """Losses of the infrastructure, and `disruptions`, count only pods that the operator has not ended itself."""

    def __init__(self, now: Circumstances) -> None:
        super().__init__(now)
        self._owners: dict[str, str] = {}
        self._cut: set[str] = set()
        self._losses = InfrastructureLosses()

    def on_change(self, entry: Entry) -> None:
        if entry.plural == "trainjobs" and entry.type != "DELETED":
            self._losses.add(entry.object)
        if entry.plural == "pods" and entry.type == "ADDED" and not is_inert(entry.object):
            metadata = entry.object["metadata"]
            self._owners[metadata["uid"]] = metadata["ownerReferences"][0]["uid"]

    def after_pass(self) -> None:
        self._cut |= self.world.cut | self.world.deaf.keys()
        unheard = {self._owners.get(uid) for uid in self.world.cut}
        for job in self.jobs():
            if job["metadata"]["uid"] in unheard:
                self._cut |= {pod["metadata"]["uid"] for pod in self.pods_of(job)}
        lost = Counter(self._owners.get(uid, "") for uid in self.world.disturbed | self._cut)
        for job in self.jobs():
            status, run = job["status"], job["status"].get("run") or {}
            uids = {job["metadata"]["uid"], run.get("uid", ""), *run.get("formerUids", ())} - {""}
            total = (status.get("restarts") or {}).get("disruptions", 0)
            counted = max(self._losses.of(job["metadata"]["uid"]), total)
            most = sum(lost[uid] for uid in uids)
            assert counted <= most, f"{counted} losses are counted, and {most} pods were lost: {status}"


class FewPodsAreRefused(Oracle):
    """Of the pods of one slot, at most 8 at once and one a minute are refused, however long a node refuses them."""

    def __init__(self, now: Circumstances) -> None:
        super().__init__(now)
        self.refused: Counter[tuple[str, str]] = Counter()
        self.lost: Counter[str] = Counter()
        self._ended: set[str] = set()

    def on_change(self, entry: Entry) -> None:
        pod = entry.object
        if entry.plural != "pods" or entry.type != "MODIFIED" or is_inert(pod):
            return
        uid, status = pod["metadata"]["uid"], pod["status"]
        if status.get("phase") != "Failed" or uid in self._ended or not pod["metadata"].get("ownerReferences"):
            return
        self._ended.add(uid)
        owner = pod["metadata"]["ownerReferences"][0]["uid"]
        if status.get("containerStatuses"):
            self.lost[owner] += 1
        else:
            self.refused[owner, pod["metadata"]["labels"].get(names.LABEL_SLOT, "head")] += 1

    def after_pass(self) -> None:
        seconds, times = self.now.refusing()
        for (owner, slot), count in self.refused.items():
            # After a pod that ran was lost, its replacement may be made at once again.
            most = REFUSED_AT_ONCE * (times + self.lost[owner]) + seconds / 60
            assert count <= most, f"{count} pods of slot {slot} were refused within {seconds:.0f} s"


class LostHeadsAreFollowed(Oracle):
    """Once the cluster is healthy, the loss of a head leads to the next attempt within NEXT_ATTEMPT."""

    def __init__(self, now: Circumstances) -> None:
        super().__init__(now)
        self._lost_since: dict[tuple[str, int], datetime] = {}

    def at_rest(self) -> None:
        for job in self.jobs():
            status, metadata = job["status"], job["metadata"]
            key = (metadata["uid"], status.get("attempt", 0))
            if status.get("phase") in AT_REST or key[1] == 0 or "deletionTimestamp" in metadata:
                continue
            wanted = names.head_name(metadata["name"], metadata["uid"], key[1])
            if not self.world.api.creates["pods", wanted]:
                continue  # a quota or a policy rejects it
            head = self.world.find_pod(wanted)
            if head is not None and is_live(head) and name_of(head) not in self.world.silent:
                continue
            since = self._lost_since.setdefault(key, self.world.now)
            healthy = self.now.healthy_since
            is_late = healthy is not None and self.world.now - max(since, healthy) > NEXT_ATTEMPT
            assert not is_late, f"attempt {key[1]} has no head since {since}: {status}"


class GangsHoldLittle(Oracle):
    """An incomplete gang whose missing pods the API server rejects holds its GPUs for at most HELD."""

    def __init__(self, now: Circumstances) -> None:
        super().__init__(now)
        self._since: dict[tuple[str, int, timedelta], datetime] = {}
        self.gpu_seconds: defaultdict[str, float] = defaultdict(float)

    def at_rest(self) -> None:
        for job in self.jobs():
            status, uid = job["status"], job["metadata"]["uid"]
            key = (uid, status.get("attempt", 0), self.now.away)  # another operator measures the time again
            reasons = {each["reason"] for each in status.get("conditions") or [] if each["type"] == "Reconciling"}
            wanted = job["spec"]["scaling"].get("minWorkers") or job["spec"]["scaling"].get("numWorkers", 1)
            live = self.gang_of(job)
            workers = sum(role_of(pod) == names.WORKER for pod in live)
            is_rejected = bool(reasons & {*REJECTIONS, EXCEEDS_QUOTA})
            is_right = not live or workers >= wanted or not is_rejected or status.get("phase") in AT_REST
            if is_right or self.now.are_releases_denied():
                self._since.pop(key, None)
                continue
            since = self._since.setdefault(key, self.world.now)
            held = self.world.now - since
            assert held <= HELD, f"{len(live)} pods were held for {held} for others that are rejected: {reasons}"


class NodesAreGivenBack(Oracle):
    """A gang of which too few pods have a node keeps them for partialStartDeadlineSeconds after the last of its pods
    was created or got a node; one that can train keeps them, and so does a head without workers: it holds no GPU."""

    LATE = timedelta(seconds=60)

    def __init__(self, now: Circumstances) -> None:
        super().__init__(now)
        self._since: dict[str, tuple[object, datetime]] = {}  # the last change, without the operator's absences
        self._lost: set[tuple[str, int]] = set()

    def on_change(self, entry: Entry) -> None:
        if entry.plural != "trainjobs" or entry.type != "MODIFIED" or not is_lost(entry.object):
            return
        key = (entry.object["metadata"]["uid"], entry.object["status"]["attempt"])
        if key in self._lost:
            return  # a pod whose delete is denied may still get a node
        self._lost.add(key)
        is_released = entry.object["status"]["failure"]["reason"] == PARTIAL_START
        assert not (is_released and self._can_train(entry.object)), "a job that can train released its pods"

    def at_rest(self) -> None:
        for job in self.jobs():
            uid, pods = job["metadata"]["uid"], self._live_pods(job)
            limit = job["spec"].get("partialStartDeadlineSeconds", 1800)
            placed = self._find_placed(job)
            holds_a_worker = any(role_of(pod) == names.WORKER for pod in placed)
            is_waiting = holds_a_worker and len(placed) < len(pods) and not self._can_train(job)
            is_denied = self.now.are_requests_denied and self.now.healthy_since is None
            is_waiting &= not is_denied  # a release is a write of the status, and deletes
            is_waiting &= self.world.slow.isdisjoint(map(name_of, self.pods_of(job)))  # its head may still save
            if not is_waiting or not limit or is_lost(job) or job["status"].get("phase") in AT_REST:
                self._since.pop(uid, None)
                continue
            seen, now = {(name_of(pod), pod["spec"].get("nodeName")) for pod in pods}, self.world.now - self.now.away
            if self._since.get(uid, ({}, now))[0] != seen:
                self._since[uid] = (seen, now)
            held = now - self._since[uid][1]
            assert held <= timedelta(seconds=limit) + self.LATE, f"an incomplete gang has held nodes for {held}"

    def _live_pods(self, job: Object) -> list[Object]:
        """Without those that the driver has given up."""
        return [pod for pod in self.gang_of(job) if name_of(pod) not in self.world.unreachable]

    def _find_placed(self, job: Object) -> list[Object]:
        return [pod for pod in self._live_pods(job) if pod["spec"].get("nodeName")]

    def _can_train(self, job: Object) -> bool:
        roles, scaling = Counter(role_of(pod) for pod in self._find_placed(job)), job["spec"]["scaling"]
        return roles[names.HEAD] > 0 and roles[names.WORKER] >= (scaling.get("minWorkers") or scaling["numWorkers"])


class AQuotaIsUsed(Oracle):
    """Of jobs that a quota keeps from starting, the first has all its pods within two minutes, and another one within
    the longest delay after it has finished."""

    FIRST, LATER = timedelta(seconds=120), timedelta(seconds=660)

    def __init__(self, now: Circumstances) -> None:
        super().__init__(now)
        self._since: datetime | None = None
        self._most = self.FIRST

    def at_rest(self) -> None:
        jobs = [job for job in self.jobs() if job["metadata"]["namespace"] == NAMESPACE]
        waiting = [job for job in jobs if job["status"].get("phase") not in FINISHED]
        rejected = [job for job in waiting if self._is_rejected(job)]
        if any(self._is_complete(job) for job in waiting):
            self._since, self._most = None, self.LATER
            return
        is_held = self.world.silent or self.world.slow.intersection(map(name_of, self.world.pods()))
        if not rejected or self.now.are_requests_denied or is_held:
            self._since = None  # pods that do not end use the quota until somebody removes them, or they have saved
            return
        self._since = self._since or self.world.now
        waited = self.world.now - self._since
        assert waited <= self._most, f"none of {len(waiting)} jobs has all its pods after {waited}"

    def _is_rejected(self, job: Object) -> bool:
        conditions = job["status"].get("conditions") or []
        failure = job["status"].get("failure") or {}
        reasons = {each["reason"] for each in conditions if each["type"] == "Reconciling"}
        return QUOTA_EXCEEDED in reasons or (is_lost(job) and failure["reason"] == QUOTA_EXCEEDED)

    def _is_complete(self, job: Object) -> bool:
        scaling = job["spec"]["scaling"]
        return len(self.gang_of(job)) > int(scaling.get("numWorkers") or scaling.get("minWorkers"))


class OnePodCommits(Oracle):
    """At most one pod commits in an attempt."""

    def after_pass(self) -> None:
        for name, run in self.world.runs.items():
            several = {attempt: uids for attempt, uids in run.writers.items() if len(uids) > 1}
            assert not several, f"two pods of {name} have committed in one attempt: {several}"


class DeletesAreTried(Oracle):
    """As soon as a job is finished, lost or suspended, every one of its pods that must go has been asked to."""

    def at_rest(self) -> None:
        for job in self.jobs():
            metadata, status = job["metadata"], job["status"]
            if "deletionTimestamp" in metadata or job["spec"].get("managedBy") != names.MANAGER:
                continue
            if not is_lost(job) and status.get("phase") not in (*FINISHED, "Suspended"):
                continue
            live = [pod for pod in self.pods_of(job) if is_live(pod) and "deletionTimestamp" not in pod["metadata"]]
            kept = [name_of(pod) for pod in live if name_of(pod) not in self.now.asked]
            assert not kept, f"a job that is {status['phase']} keeps {kept}"


class CPULimitsAreShown(Oracle):
    """A CPU limit that the job did not ask for is in a condition as long as a pod of the job has it."""

    def at_rest(self) -> None:
        for job in self.jobs():
            metadata, conditions = job["metadata"], job["status"].get("conditions") or []
            if "deletionTimestamp" in metadata:
                continue
            containers = [each for pod in self.pods_of(job) for each in pod["spec"].get("containers") or []]
            limits = [each["resources"]["limits"] for each in containers if each["name"] == names.CONTAINER]
            is_shown = any(each["type"] == "CPULimited" for each in conditions)
            assert is_shown == any("cpu" in each for each in limits), f"{metadata['name']}: {limits}, {conditions}"


class NothingLoops(Oracle):
    """While nothing but the operator acts and no time passes, it ends within a few passes."""

    def __init__(self, now: Circumstances) -> None:
        super().__init__(now)
        self._passes = 0

    def after_pass(self) -> None:
        self._passes += 1
        most = MOST_PASSES * max(len(self.jobs()), 1)
        assert self._passes <= most, f"{self._passes} passes without a pause"

    def at_rest(self) -> None:
        self._passes = 0


class OthersAreNotDelayed(Oracle):
    """A job in another namespace, where nothing happens, is as fast as alone: it starts at once, trains in its first
    attempt and never waits."""

    SLACK = timedelta(seconds=30)

    def at_rest(self) -> None:
        for job in self.jobs():
            metadata, status = job["metadata"], job["status"]
            if metadata["namespace"] == NAMESPACE:
                continue
            age = self.world.now - datetime.fromisoformat(metadata["creationTimestamp"]) - self.now.away
            run, name = self.world.runs[metadata["name"]], metadata["name"]
            assert self.pods_of(job) or status.get("phase") in FINISHED, f"{name} has no pods"
            assert status["attempt"] == 1 and not status.get("restarts"), f"{name} was disturbed: {status}"
            pace = self.world.pace + timedelta(seconds=2)  # the world's steps take a second each
            wanted = min(int((age - self.SLACK) / pace), self.world.epochs)
            assert len(run.commits) >= wanted, f"{name} has {len(run.commits)} of {wanted} commits after {age}"
            is_due = age > pace * self.world.epochs + 2 * self.SLACK
            assert not is_due or status.get("phase") == "Succeeded", f"{name} is {status.get('phase')} after {age}"


ORACLES: tuple[type[Oracle], ...] = (
    HealthyPodsStay,
    CutOffHeadsCostLittle,
    NobodyIsBlamed,
    OnlyLossesCount,
    FewPodsAreRefused,
    LostHeadsAreFollowed,
    GangsHoldLittle,
    NodesAreGivenBack,
    AQuotaIsUsed,
    OnePodCommits,
    DeletesAreTried,
    CPULimitsAreShown,
    NothingLoops,
    OthersAreNotDelayed,
)


class Witness:
    """All oracles of one world. Violations are raised after the pass: the operator would catch them."""

    def __init__(self, now: Circumstances, *, oracles: tuple[type[Oracle], ...] = ORACLES) -> None:
        self.oracles = [oracle(now) for oracle in oracles]
        self.violations: list[str] = []
        self._asked, world = now.asked, now.world
        self._world, self._passed_on = world, world.api.changed
        world.api.changed = self._on_change
        world.policies.insert(0, self._on_request)

    def _on_request(self, method: str, place: Place, subresource: str) -> str:
        if method == "DELETE":
            self._asked.add(place[2])
        for oracle in self.oracles:
            self._note(lambda each: each.on_request(method, place), oracle)
        return ""

    def _on_change(self, entry: Entry) -> None:
        self._passed_on(entry)
        for oracle in self.oracles:
            self._note(lambda each: each.on_change(entry), oracle)

    def _note(self, call: Callable[[Oracle], None], oracle: Oracle) -> None:
        try:
            call(oracle)
        except AssertionError as error:
            self.violations.append(f"{type(oracle).__name__}: {error}")

    def after_pass(self) -> None:
        for oracle in self.oracles:
            self._note(lambda each: each.after_pass(), oracle)
        self.check()

    def at_rest(self) -> None:
        for oracle in self.oracles:
            self._note(lambda each: each.at_rest(), oracle)
        self.check()

    def check(self) -> None:
        if self.violations:
            raise AssertionError(f"at {self._world.now:%H:%M:%S}: " + "; ".join(self.violations[:3]))
