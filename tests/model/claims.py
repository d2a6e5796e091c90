"""What the sentences of `railhead why` assert, as predicates over the facts of the model.

A sentence is judged by its words, whichever row of causes.toml has it: one that comes to say something else is judged
by that, and one with none of these words is in no table, which fails too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property

from railhead.api import names
from railhead.client.cluster.job_snapshot import JobSnapshot
from railhead.client.explain.why import Finding, explain_job
from railhead.contract.times import parse_time
from railhead.json_object import Object, part, parts
from tests.model.world import World, is_inert, is_live, name_of, role_of

STUCK = timedelta(minutes=5)
STALE = timedelta(minutes=15)
NEVER_LOST = ("", "Succeeded", "Suspended")


@dataclass(frozen=True)
class Facts:
    """One job of the model, read without the code that `railhead why` reads it with."""

    world: World
    job: Object

    @property
    def spec(self) -> Object:
        return part(self.job, "spec")

    @property
    def status(self) -> Object:
        return part(self.job, "status")

    @property
    def phase(self) -> str:
        return str(self.status.get("phase") or "")

    @cached_property
    def pods(self) -> list[Object]:
        """Those that the job owns."""
        uid = self.job["metadata"]["uid"]
        return [pod for pod in self.world.pods() if is_owned(pod, uid) and not is_inert(pod)]

    @cached_property
    def current_pods(self) -> list[Object]:
        return [pod for pod in self.pods if attempt_of(pod) == self.status.get("attempt")]

    @property
    def events(self) -> list[Object]:
        """Those about the job and its pods, with the time of the world's clock."""
        about = {self.job["metadata"]["uid"], *(pod["metadata"]["uid"] for pod in self.pods)}
        return [
            {**found, "lastTimestamp": found["metadata"]["creationTimestamp"]}
            for found in self.world.api.objects.of("events")
            if found["involvedObject"]["uid"] in about
        ]

    def is_true(self, type_: str) -> bool:
        return any((each["type"], each["status"]) == (type_, "True") for each in parts(self.status, "conditions"))

    @property
    def is_finished(self) -> bool:
        return self.is_true("Complete") or self.is_true("Failed")

    @property
    def has_checkpoint(self) -> bool:
        return bool(self.status.get("checkpoint")) and any(run.commits for run in self.world.runs.values())

    @property
    def is_attempt_lost(self) -> bool:
        """The list of attempts says how the last one ended."""
        attempts = parts(self.status, "attempts")
        return (
            bool(attempts)
            and attempts[-1]["number"] == self.status["attempt"]
            and attempts[-1]["class"] not in NEVER_LOST
        )

    @property
    def will_go_on(self) -> bool:
        """Nobody has to do anything for the next attempt, round or worker."""
        return not self.is_finished and not self.job["metadata"].get("deletionTimestamp") and self.phase != "Suspended"

    @property
    def trains(self) -> bool:
        """A driver of this attempt has a group, or its end is on the way to the operator, or from there to the status,
        which an admission policy may deny."""
        drivers = [
            self.world.drivers.get(pod["metadata"]["uid"]) for pod in self.current_pods if role_of(pod) == names.HEAD
        ]
        if not drivers:
            # Its head is gone. That the operator notices is judged by LostHeadsAreFollowed.
            return part(self.status, "progress").get("state") == "RUNNING"
        if drivers == [None]:
            # Its machine went silent, which nobody knows until a report is overdue.
            return part(self.status, "progress").get("state") == "RUNNING"
        is_on_the_way = any(report.uid == self.job["metadata"]["uid"] for report in self.world.reports)
        states = {driver.state for driver in drivers if driver is not None}
        # The operator waits for the report of a driver that has just lost a worker.
        is_on_the_way = is_on_the_way or not all(map(is_live, self.current_pods))
        return is_on_the_way or not states.isdisjoint(("RUNNING", "FINISHED"))

    @property
    def classes(self) -> set[str]:
        """Of the newest failure, and of the newest restart in place."""
        restart = part(part(self.status, "progress"), "restart")
        return {str(part(self.status, "failure").get("class")), str(restart.get("class"))}

    def lost_seconds(self, *causes: str) -> int:
        lost = part(part(self.status, "goodput"), "lostSeconds")
        return sum(lost[cause] for cause in causes)

    @property
    def saves_beyond_optimum(self) -> float:
        """The square of the job's interval between checkpoints, beside 2 x stall x mean time between its losses, which
        is Young's optimum. Fewer than three losses are no rate: then it is the published one of a GPU per worker."""
        spent = part(self.status, "goodput")
        commits = int(part(self.status, "checkpoint")["index"]) + 1
        of_code = ("Application", "OutOfMemory", "Startup", "Configuration", "Fenced", "MetricRule", "DeadlineExceeded")
        losses = sum(count for kind, count in spent["interruptions"].items() if kind not in of_code)
        productive = spent["productiveSeconds"] + self.count_unsettled("productive")
        stalled = self.lost_seconds("checkpointing") + self.count_unsettled("checkpointing")
        other = self.lost_seconds("retrained", "hanging") + self.count_unsettled("retrained", "hanging")
        mtbf = 1024 * 7.9 * 3600 / self.spec["scaling"].get("numWorkers", 1)
        if losses >= 3:
            mtbf = (productive + stalled + other) / losses
        optimum = 2 * stalled / commits * mtbf
        return float((productive / commits) ** 2 / max(optimum, 30.0**2))

    def count_unsettled(self, *causes: str) -> float:
        """Returns the seconds that the driver of a living attempt has reported and status.goodput does not have yet."""
        progress = part(self.status, "progress")
        if self.is_finished or self.is_attempt_lost or progress.get("attempt") != self.status["attempt"]:
            return 0.0
        settled = part(part(self.status, "goodput"), "settled")
        if settled.get("attempt") != self.status["attempt"]:
            settled = {}
        spent = part(progress, "spent")
        milliseconds: int = sum(max(spent.get(cause, 0) - settled.get(cause, 0), 0) for cause in causes)
        return milliseconds / 1000

    @property
    def wanted_workers(self) -> int:
        """How many the status says that the current attempt has."""
        return int(part(self.status, "workers").get("desired") or 0)

    @property
    def is_next_failure_the_last(self) -> bool:
        """The rule of spec.backoffLimit, as docs/reference/spec.md states it."""
        failures = part(self.status, "restarts").get("application", 0)
        if failures < self.spec.get("backoffLimit", 3):
            return False
        budget = part(self.status, "budget")
        if not budget or part(self.status, "checkpoint").get("index", -1) <= budget.get("checkpoint", -1):
            return True
        trained = timedelta(seconds=budget.get("runningSeconds", 0))
        for each in parts(self.status, "conditions"):
            since = parse_time(each.get("lastTransitionTime", ""))
            if (each["type"], each["status"]) == ("Running", "True") and since is not None:
                trained += self.world.now - since
        return trained < timedelta(seconds=self.spec.get("backoffResetSeconds", 21_600))


def is_owned(pod: Object, uid: str) -> bool:
    return any(each["uid"] == uid for each in parts(pod["metadata"], "ownerReferences"))


def is_gated(pod: Object) -> bool:
    """By its gates, or by those that the scheduler saw last."""
    seen = (each.get("reason") for each in parts(pod["status"], "conditions"))
    return bool(pod["spec"].get("schedulingGates")) or "SchedulingGated" in seen


def attempt_of(pod: Object) -> int:
    return int(part(pod["metadata"], "labels").get(names.LABEL_ATTEMPT, 0))


def is_running(pod: Object) -> bool:
    return is_live(pod) and pod["status"].get("phase") == "Running"


def stays(pod: Object) -> bool:
    return is_live(pod) and "deletionTimestamp" not in pod["metadata"]


def waits_for_image(pod: Object) -> bool:
    containers = parts(pod["status"], "containerStatuses")
    return any("Pull" in str(part(part(each, "state"), "waiting").get("reason")) for each in containers)


def cannot_start(pod: Object) -> bool:
    containers = parts(pod["status"], "containerStatuses")
    return any("waiting" in part(each, "state") for each in containers)


def has_no_pods(facts: Facts) -> bool:
    """But those on nodes that nobody reaches, which `PodsStuck` names after their grace period."""
    return not any(is_live(pod) and name_of(pod) not in facts.world.silent for pod in facts.pods)


def waits_for_node(pod: Object) -> bool:
    return pod["status"].get("phase") == "Pending" and not pod["spec"].get("nodeName")


def is_overdue(facts: Facts, pod: Object) -> bool:
    by = parse_time(pod["metadata"].get("deletionTimestamp") or "")
    return by is not None and facts.world.now - by >= STUCK


def are_all_up(facts: Facts) -> bool:
    return is_head_up_with(facts, facts.wanted_workers)


def are_enough_up(facts: Facts) -> bool:
    """An elastic job begins with minWorkers when it has waited for the others."""
    return is_head_up_with(facts, facts.spec["scaling"].get("minWorkers") or facts.wanted_workers)


def is_head_up_with(facts: Facts, workers: int) -> bool:
    up = [pod for pod in facts.current_pods if is_running(pod)]
    heads = [pod for pod in up if role_of(pod) == names.HEAD]
    return len(heads) == 1 and len(up) - 1 >= workers


def has_foreign_pods(facts: Facts) -> bool:
    uid = facts.job["metadata"]["uid"]
    own = {name_of(pod) for pod in facts.pods}
    labelled = (pod for pod in facts.world.pods() if part(pod["metadata"], "labels").get(names.LABEL_JOB_UID) == uid)
    return any(name_of(pod) not in own for pod in labelled)


def is_report_old(facts: Facts) -> bool:
    at = parse_time(part(facts.status, "progress").get("updateTime") or "")
    return at is not None and facts.world.now - at > STALE


def is_status_denied(facts: Facts) -> bool:
    """The operator has written no status since the last denial of one."""
    uid = facts.job["metadata"]["uid"]
    newest = facts.status
    for entry in reversed(facts.world.api.log):
        about = part(entry.object, "involvedObject").get("uid")
        if (entry.plural, about, entry.object.get("reason")) == ("events", uid, "StatusDenied"):
            return True
        if entry.plural == "trainjobs" and entry.object["metadata"]["uid"] == uid and entry.object["status"] != newest:
            return False
    return False


def is_of(*classes: str) -> Callable[[Facts], bool]:
    def judge(facts: Facts) -> bool:
        return not facts.classes.isdisjoint(classes)

    return judge


def lost_time(*causes: str) -> Callable[[Facts], bool]:
    def judge(facts: Facts) -> bool:
        return facts.lost_seconds(*causes) > 0

    return judge


# Words of a sentence, and what must be so wherever it is printed.
CLAIMS: tuple[tuple[str, Callable[[Facts], bool]], ...] = (
    (r"attempt was lost", lambda facts: facts.is_attempt_lost and facts.phase == "Restarting"),
    (
        r"continues by itself|tries again|runs it again|starts by itself|admits the job|Nothing for the job, which|"
        r"run continues with new ones|job continues once|next try",
        lambda facts: facts.will_go_on,
    ),
    (r"Training starts again", lambda facts: facts.phase == "Restarting" and not facts.is_attempt_lost),
    (r"has succeeded|Nothing; it", lambda facts: facts.phase == "Succeeded" and not facts.is_true("Failed")),
    (r"newest checkpoint is in|from the last checkpoint", lambda facts: facts.has_checkpoint),
    (r"no checkpoint\b|without a checkpoint", lambda facts: not facts.status.get("checkpoint")),
    (r"queue does not admit it now|once its queue may", lambda facts: facts.phase == "Queued"),
    (r"has no pods any more", has_no_pods),
    (r"[Ss]uspended and has no pods", lambda facts: facts.phase == "Suspended" and has_no_pods(facts)),
    (
        r"Run `railhead resume",
        lambda facts: facts.phase == "Suspended" and "deletionTimestamp" not in facts.job["metadata"],
    ),
    (r"is being suspended|suspendGraceSeconds", lambda facts: facts.phase == "Suspending"),
    (r"^(?!.*if it runs).*commits a last checkpoint", lambda facts: facts.trains),
    (r"Training runs|^Nothing\.$", lambda facts: facts.is_true("Running") and facts.trains),
    (
        r"fewer workers than",
        # A worker pod that ends is not counted: it has lost its place, though it still runs.
        lambda facts: (
            facts.trains
            and sum(is_running(pod) and stays(pod) for pod in facts.current_pods) - 1 < facts.wanted_workers + 1
        ),
    ),
    (
        r"pods were lost and are being replaced",
        lambda facts: not facts.is_attempt_lost and any(map(is_live, facts.current_pods)),
    ),
    (r"Enough pods are up|shows how far", are_enough_up),
    (r"All pods are up", are_all_up),
    (r"another one takes its place", lambda facts: not any(map(cannot_start, facts.current_pods))),
    (r"pods are being created, or wait", lambda facts: facts.phase == "Pending"),
    (
        r"waits until the pods of the earlier one|their grace period; then look",
        lambda facts: any(attempt_of(pod) < facts.status["attempt"] + facts.is_attempt_lost for pod in facts.pods),
    ),
    (
        r"avoids (that|the) node|job avoids nodes|these nodes checked",
        lambda facts: bool(facts.status.get("avoidedNodes")),
    ),
    (r"Terminating long after", lambda facts: any(is_overdue(facts, pod) for pod in facts.pods)),
    (r"carry the job's label|Delete these copies", has_foreign_pods),
    (r"does not let the operator delete", lambda facts: bool(facts.world.denied) or bool(facts.world.policies)),
    (r"does not let the operator change the job's status", is_status_denied),
    (r"have a node now", lambda facts: not any(map(waits_for_node, facts.current_pods))),
    (r"releases worker pods after", lambda facts: bool(facts.status.get("resize"))),
    (
        r"ResourceQuota has too little|ResourceQuota even alone",
        lambda facts: sum(map(stays, facts.current_pods)) < facts.wanted_workers + 1,
    ),
    (
        r"finds no node for a pod|No node has",
        lambda facts: any(map(waits_for_node, facts.pods)) or facts.is_attempt_lost,
    ),
    (
        r"have scheduling gates|Kueue manages the job's pods",
        lambda facts: any(map(is_gated, facts.pods)) or facts.is_attempt_lost,
    ),
    (
        r"volume of the pod cannot",
        lambda facts: any(event.get("reason") in ("FailedMount", "FailedMapVolume") for event in facts.events),
    ),
    (r"node of a pod cannot start it", lambda facts: not all(map(is_running, facts.current_pods))),
    (r"kubelet of the chosen node refused", lambda facts: "Startup" in facts.classes or "workerLosses" in facts.status),
    (r"preempted, evicted or drained", is_of("Preemption")),
    (r"training code failed|training function raised", is_of("Application")),
    (r"Training hung|ranks are stuck", is_of("Hang")),
    (r"A pod, a node, Ray or the storage failed", is_of("Infrastructure")),
    (r"killed.* memory|used more memory", is_of("OutOfMemory")),
    (r"GPU failed|A GPU, or the network|GPU replaced", is_of("Hardware")),
    (r"Only some pods found a node", lambda facts: "Startup" in facts.classes),
    (r"Training did not start", is_of("Startup")),
    (r"Another head has taken over", is_of("Fenced")),
    (r"activeDeadlineSeconds", is_of("DeadlineExceeded")),
    (r"run `railhead retry|Run `railhead retry|Retry with", lambda facts: facts.is_finished),
    (r"delete the job and submit it with the new code", lambda facts: not facts.is_finished),
    (r"then `railhead resume|while the job is suspended|Suspend the job", lambda facts: not facts.is_finished),
    (r"next failure that backoffLimit counts ends|while the job runs", lambda facts: facts.is_next_failure_the_last),
    (r"reported no progress for more than 15", is_report_old),
    (
        r"seen the job's spec as it is now|then check that the operator runs",
        lambda facts: facts.job["metadata"]["generation"] > facts.status.get("observedGeneration", -1),
    ),
    (
        r"The job is being deleted|finalizers? in its metadata",
        lambda facts: "deletionTimestamp" in facts.job["metadata"],
    ),
    (r"wait for quota, nodes or images", lost_time("queued", "podsPending")),
    (r"Losses took back training", lost_time("retrained")),
    (r"restarts often or slowly", lost_time("restoring")),
    (r"stood still until a hang", lost_time("hanging")),
    (r"wait in ray.train.report while", lost_time("checkpointing")),
    (r"losses cost more than frequent checkpoints", lambda facts: facts.saves_beyond_optimum > 1),
    (r"longer than losses would cost", lambda facts: facts.saves_beyond_optimum < 1),
    (r"made the job again, with the status", lambda facts: bool(part(facts.status, "run").get("formerUids"))),
    (r"again without its status", lambda facts: not facts.status.get("run")),
    (
        r"node does not have the image|container of the pod cannot be started",
        lambda facts: any(map(cannot_start, facts.current_pods)),
    ),
    (
        r"no network or no sandbox",
        lambda facts: any(
            event.get("reason") in ("FailedCreatePodSandBox", "NetworkNotReady") for event in facts.events
        ),
    ),
    (
        r"cannot create the cgroup of the pod",
        lambda facts: any(event.get("reason") == "FailedCreatePodContainer" for event in facts.events),
    ),
    (
        r"cannot prepare the devices of a resource claim",
        lambda facts: any(event.get("reason") == "FailedPrepareDynamicResources" for event in facts.events),
    ),
    (r"image cannot be pulled", lambda facts: any(map(waits_for_image, facts.current_pods))),
)
# Sentences that say what somebody may do, and nothing of the job. They have none of the words above.
ADVICE = re.compile(
    r"^(Follow the message above|Free capacity|Ask an administrator|Have |Create |Correct |Fix |Raise |Read |See |"
    r"Save about as often|Find |Look at |Report |Give |Request |Wait at most|Wait a moment, and ask|"
    r"Remove |Set |Grant |Move |Delete |Restore the status|Compare |Push |Name |"
    r"Nothing, if other jobs|Nothing, unless)"
)
# Causes that name what another component has said: its words are the message, which no state can contradict.
OF_OTHERS = re.compile(
    r"(do not make a valid pod|"
    r"LimitRange|admission policy|API server refuses|admission webhook|operator lacks|Pod Security|quota of the queue|"
    r"asked its queue|quota of its queue|LocalQueue or the ClusterQueue|taken the quota back|"
    r"holds the job by spec.active|request is larger|No rack|admission check|operator cannot watch Kueue|"
    r"does not let the operator change the job's Workload|[Nn]amespace is being deleted|goes with its namespace)"
)
COMPILED = tuple((re.compile(words), holds) for words, holds in CLAIMS)


def explain(world: World, job: Object) -> tuple[Facts, list[Finding]]:
    """Returns what `railhead why` prints about the job now."""
    facts = Facts(world, job)
    return facts, explain_job(JobSnapshot(job, tuple(facts.pods), tuple(facts.events), world.now))


def find_false(facts: Facts, finding: Finding) -> Iterator[str]:
    """Yields what is false of a finding, and what the tables cannot judge."""
    for sentence in (finding.cause, finding.remedy):
        is_known = bool(ADVICE.search(sentence) or OF_OTHERS.search(sentence))
        for words, holds in COMPILED:
            if words.search(sentence):
                is_known = True
                if not holds(facts):
                    yield f"false: {sentence!r} ({words.pattern})"
        if not is_known:
            yield f"not judged: {sentence!r}"
