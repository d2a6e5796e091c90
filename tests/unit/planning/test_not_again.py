"""What has happened once counts once: whatever else is written after it, happens beside it, or comes to light later.

Each property is about one kind of repetition, for any state of its kind: a second write about the same loss, the same
judgement at another time, another event between two alike, evidence about what nothing of the job needs, and a second
node.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from railhead.api import names
from railhead.api.status import AvoidedNode
from railhead.contract.failure import FailureClass
from railhead.contract.times import format_time
from railhead.planning.facts.avoided_nodes import Avoidance, compute_avoidance
from railhead.planning.facts.lost_workers import add_loss, count_refusals, replacement_at
from railhead.planning.facts.pod_failure import LossReason
from railhead.planning.facts.reasons import NODE_REFUSED_POD
from railhead.planning.facts.settlement import IN_A_ROW, settle
from railhead.planning.job import Job
from railhead.planning.pod_view import PodView
from railhead.planning.queue_view import NODE_FAILURES, Assignment
from tests.model.oracles import check_goodput
from tests.unit.builders import NOW, RUNNING_STATUS, make_attempt, make_head, make_job, make_spec, make_worker
from tests.unit.kueue import ADMISSION, make_admitted, queued_spec, served
from tests.unit.planning.simulation import Simulation

Kind = tuple[str, str]
DISRUPTED: Kind = ("Preemption", "PreemptionByScheduler")
EVICTED: Kind = ("Infrastructure", LossReason.TERMINATION_BY_KUBELET.value)
OTHERS: tuple[Kind, ...] = (
    ("Infrastructure", "PodFailed"),
    ("Startup", "StartDeadlineExceeded"),
    ("Hardware", "GPUFailed"),
)
NODES = tuple(f"node-{number}" for number in range(6))


# A second write about the same loss.

EVENTS = ("lose the head", "lose a worker", "change the spec", "wait", "wait long", "commit", "deny deletes")


def act(sim: Simulation, event: str, number: int) -> None:
    """One event; most of them make the operator write the status once more."""
    if event == "lose the head" and sim.live_heads:
        sim.end_head("Infrastructure")
    elif event == "lose a worker":
        live = [pod for pod in sim.pods.values() if pod.is_up and pod.role == names.WORKER]
        if live:
            sim.end_pod(live[0].name, "Infrastructure")
    elif event == "change the spec":
        sim.apply(backoffLimit=100, noProgressLimit=100 + number)
    elif event in ("wait", "wait long"):
        sim.later(5 if event == "wait" else 90)
    elif event == "commit" and sim.live_heads and sim.status["attempt"]:
        sim.report(checkpoint=number)
    elif event == "deny deletes":
        sim.api.deletion = lambda obj: f"no, for the {number}th time" if obj["kind"] == "Pod" and number % 2 else ""
    for pod in sim.pods.values():
        if pod.is_live and not pod.is_running:
            sim.start_pod(pod.name)


@settings(max_examples=25)
@given(st.lists(st.sampled_from(EVENTS), min_size=3, max_size=12), st.booleans())
def test_a_loss_is_counted_once_however_often_the_status_is_written_after_it(events: list[str], are_slow: bool) -> None:
    sim = Simulation(backoffLimit=100, noProgressLimit=100)
    sim.run_until_training()
    for number, event in enumerate(events):
        act(sim, event, number)
        if are_slow:
            sim.stuck |= sim.pods.keys()  # they end, and are gone much later
        sim.reconcile()
        sim.reconcile()
    check_goodput(sim.api)


@settings(max_examples=25)
@given(st.sampled_from(("lose the head", "lose a worker")), st.lists(st.integers(1, 200), min_size=1, max_size=4))
def test_the_same_pass_twice_counts_nothing_twice(event: str, pauses: list[int]) -> None:
    """Nothing happens but that time passes and the spec is written again; the pods of the loss stay."""
    sim = Simulation(backoffLimit=100, noProgressLimit=100)
    sim.run_until_training()
    act(sim, event, 0)
    sim.stuck |= sim.pods.keys()
    sim.reconcile()
    counters = []
    for number, pause in enumerate(pauses):
        sim.later(pause)
        sim.apply(backoffLimit=100, noProgressLimit=100 + number)
        sim.reconcile()
        if sim.status["attempt"] == 1:
            counters.append(
                {key: sim.status.get(key) for key in ("restarts", "workerLosses", "avoidedNodes", "budget")}
            )
            counters[-1]["interruptions"] = sim.status["goodput"]["interruptions"]
    assert all(each == counters[0] for each in counters), counters


# The same judgement at another time.


@st.composite
def losses(draw: st.DrawFn) -> Job:
    """A job whose attempt has just been lost, after other attempts and checkpoints."""
    number = draw(st.integers(1, 6))
    began = NOW - timedelta(hours=draw(st.integers(0, 6)))
    times = {"startTime": format_time(began), "runningTime": format_time(began)}
    listed = [make_attempt(number=each, **times) for each in range(1, number + 1)]
    for attempt in listed[:-1]:
        class_, reason = draw(st.sampled_from((DISRUPTED, EVICTED, *OTHERS)))
        attempt |= {"class": class_, "reason": reason, "completionTime": format_time(NOW - timedelta(hours=1))}
    class_ = draw(st.sampled_from(("Hang", "Hang", *(each.value for each in FailureClass))))
    status: dict[str, Any] = {
        "attempt": number,
        "round": 0,
        "phase": "Restarting",
        "attempts": listed,
        "failure": {"class": class_, "reason": "Because", "attempt": number, "time": format_time(NOW)},
        "restarts": {"withoutProgress": draw(st.integers(0, 4)), "application": draw(st.integers(0, 2))},
    }
    if draw(st.booleans()):
        at = began + timedelta(minutes=draw(st.integers(0, 300)))
        owner = draw(st.integers(1, number))
        status["checkpoint"] = {"uri": "/runs/c7", "index": 7, "time": format_time(at), "attempt": owner}
    return make_job(status=status, spec=make_spec(backoffLimit=2, noProgressLimit=3, backoffResetSeconds=3 * 3600))


@given(losses(), st.integers(3600, 10**6))
def test_a_loss_is_judged_alike_whenever_that_is_done(job: Job, seconds: int) -> None:
    """What an attempt was worth depends on its checkpoints, and not on how long it was looked at afterwards."""
    verdicts = []
    for now in (job.now, job.now + timedelta(seconds=seconds)):
        seen = replace(job, now=now)
        assert seen.status.failure is not None
        settlement = settle(seen, seen.status.failure, committed=seen.status.newest_index)
        counted = settlement.count(seen.status)
        verdicts.append((settlement.refusal, settlement.payer, settlement.next_attempt_at, counted.restarts))
    assert verdicts[0] == verdicts[1]


# Another event between two alike.


def judge(earlier: list[Kind]) -> tuple[str, str]:
    """The class of an eviction after these attempts, and why no attempt follows it."""
    end = {"completionTime": format_time(NOW)}
    listed = [
        make_attempt(number=number, **{"class": class_}, reason=reason, **end)
        for number, (class_, reason) in enumerate(earlier, 1)
    ]
    number = len(earlier) + 1
    failure = {"class": EVICTED[0], "reason": EVICTED[1], "attempt": number, "time": format_time(NOW)}
    job = make_job(status={"attempt": number, "round": 0, "attempts": listed, "failure": failure})
    assert job.status.failure is not None
    settlement = settle(job, job.status.failure, committed=-1)
    return settlement.failure.class_.value, settlement.refusal


@given(st.lists(st.sampled_from((EVICTED, *OTHERS)), max_size=8), st.integers(0, 8), st.sampled_from(OTHERS))
def test_evictions_in_a_row_are_what_no_other_disruption_is_between(earlier: list[Kind], at: int, other: Kind) -> None:
    """The job is blamed for as many in a row as the limit says; a disruption among them shows that nodes are short of
    room, and any other failure shows nothing."""
    expected = "Application" if earlier.count(EVICTED) + 1 >= IN_A_ROW else "Infrastructure"
    assert judge(earlier)[0] == expected
    assert judge([*earlier[:at], other, *earlier[at:]])[0] == expected
    since = earlier[at:].count(EVICTED)
    expected = "Application" if since + 1 >= IN_A_ROW else "Infrastructure"
    assert judge([*earlier[:at], DISRUPTED, *earlier[at:]])[0] == expected


def refused(pod: PodView, seconds: int) -> PodView:
    created = NOW - timedelta(seconds=seconds)
    return replace(pod, phase="Failed", is_running=False, is_refused=True, created_at=created, reason="OutOfcpu")


@given(st.integers(0, 9), st.integers(-1, 5), st.integers(-1, 9), st.integers(0, 100))
def test_a_checkpoint_between_two_refusals_changes_nothing_about_them(
    rounds: int, counted_at: int, newest: int, age: int
) -> None:
    """An elastic job commits while it waits for the pod that a node refuses."""
    results = []
    for index in (counted_at, max(newest, counted_at)):
        checkpoint = {"uri": "/runs/c", "index": index, "time": format_time(NOW), "attempt": 1} if index >= 0 else None
        status = {
            **RUNNING_STATUS,
            "workers": {"desired": 3, "ready": 1, "joined": 1},
            "progress": {"attempt": 1, "state": "RUNNING", "reports": 3, "joined": 1},
            "round": rounds,
            "workerLosses": {"rounds": 0, "ownFault": 0, "refused": rounds, "checkpoint": counted_at},
            "checkpoint": checkpoint,
        }
        scaling = {"minWorkers": 1, "maxWorkers": 3, "desiredWorkers": 3}
        pods = (make_head(), make_worker(0), refused(make_worker(1, round_=rounds), age))
        job = make_job(*pods, status=status, spec=make_spec(scaling=scaling))
        results.append((count_refusals(job), add_loss(job).refused, replacement_at(job)))
    assert results[0] == results[1] and results[0][:2] == (rounds, rounds + 1)


# Evidence about what nothing of the job needs.


@given(
    st.sets(st.sampled_from(NODES), min_size=1),
    st.sets(st.sampled_from(NODES), min_size=1),
    st.sampled_from(("nothing", "the head", "a worker")),
)
def test_a_job_that_lacks_no_pod_keeps_its_quota_whichever_nodes_it_avoids(
    avoided: set[str], assigned: set[str], missing: str
) -> None:
    """Kueue assigned nodes, and later the job learned to avoid some of them, for example by a restart in place."""
    until = format_time(NOW + timedelta(hours=1))
    listed = [{"name": each, "reason": NODE_REFUSED_POD, "expirationTime": until} for each in sorted(avoided)]
    assignments = tuple(
        Assignment(each, ("spot",), 1, has_topology=True, nodes=dict.fromkeys(sorted(assigned), 1))
        for each in ("head", "workers")
    )
    pods = [make_head(), make_worker(0), make_worker(1)]
    lost = {"nothing": None, "the head": 0, "a worker": 1}[missing]
    if lost is not None:
        pods[lost] = replace(pods[lost], phase="Failed", is_running=False, exit_code=1)
    status = {**RUNNING_STATUS, "admission": ADMISSION, "avoidedNodes": listed}
    job = make_job(*pods, status=status, spec=queued_spec(), queue=served(make_admitted(assignments=assignments)))
    is_taken = job.obstacle is not None and job.obstacle.reason == NODE_FAILURES
    assert is_taken == (missing != "nothing" and bool(avoided & assigned))


# Evidence about a second node.


def bring_down(pod: PodView, how: str) -> PodView:
    """On its own node; a reboot is only suspicious, a refusal is sure."""
    lost = replace(
        pod, node=f"node-{pod.slot}", phase="Failed", is_running=False, created_at=NOW - timedelta(minutes=5)
    )
    if how == "refused":
        return replace(lost, is_refused=True, reason="OutOfcpu")
    return replace(lost, reason=LossReason.STATUS_UNKNOWN, finished_at=NOW - timedelta(minutes=1))


def avoid(lost: dict[int, str], known: Avoidance, *, seconds: int = 0) -> Avoidance:
    """What the job avoids after it has lost the pods of these slots."""
    workers = [bring_down(make_worker(slot), lost[slot]) if slot in lost else make_worker(slot) for slot in range(6)]
    status = {
        **RUNNING_STATUS,
        "avoidedNodes": [node.model_dump(by_alias=True) for node in known.nodes],
        "formerlyAvoidedNodes": [node.model_dump(by_alias=True) for node in known.former],
    }
    job = make_job(make_head(), *workers, status=status, spec=make_spec(scaling={"numWorkers": 6}))
    return compute_avoidance(replace(job, now=NOW + timedelta(seconds=seconds)))


def told_about(avoidance: Avoidance, slot: int) -> list[tuple[str, AvoidedNode]]:
    lists = (("avoided", avoidance.nodes), ("remembered", avoidance.former))
    return [(name, node) for name, nodes in lists for node in nodes if node.name == f"node-{slot}"]


lost_slots = st.dictionaries(st.integers(0, 5), st.sampled_from(("refused", "rebooted")), min_size=1)


@given(lost_slots)
def test_a_second_node_changes_nothing_about_the_first(lost: dict[int, str]) -> None:
    """Neither its time, nor how often it was bad, nor whether it is avoided; and likewise in the other direction."""
    together = avoid(lost, Avoidance())
    for slot, how in lost.items():
        assert told_about(together, slot) == told_about(avoid({slot: how}, Avoidance()), slot) != []


@given(lost_slots, st.dictionaries(st.integers(0, 5), st.sampled_from(("refused", "rebooted"))), st.integers(0, 3000))
def test_evidence_that_is_seen_again_is_no_second_one(first: dict[int, str], later: dict[int, str], age: int) -> None:
    """Whatever becomes known about other nodes meanwhile."""
    known = avoid(first, Avoidance())
    again = avoid({**later, **first}, known, seconds=age)
    assert all(told_about(again, slot) == told_about(known, slot) for slot in first)
    assert avoid({**later, **first}, again, seconds=age) == again
