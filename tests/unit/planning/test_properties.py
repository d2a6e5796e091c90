"""For any observed state: a plan, never an error, never two heads, and an empty plan the second time."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from railhead.api import names
from railhead.api.parsed_spec import InvalidSpec
from railhead.api.status import Waiting
from railhead.contract.times import format_time
from railhead.planning.observed import Observed
from railhead.planning.planner import plan
from railhead.planning.pod_view import PodView, Problem
from tests.model.oracles import check_attempts
from tests.unit.builders import NOW, UID, ended, is_empty, make_head, make_observed, make_spec, make_worker, to_job
from tests.unit.planning.simulation import Simulation

small = st.integers(min_value=-1, max_value=4)
texts = st.text(max_size=20)
classes = st.sampled_from(["Application", "Configuration", "Infrastructure", "OutOfMemory", "Preemption", "?", ""])
times = st.one_of(
    st.just(""), texts, st.integers(-(10**6), 10**6).map(lambda s: format_time(NOW + timedelta(seconds=s)))
)
outcomes = st.sampled_from(["Succeeded", "Application", "Configuration", "Infrastructure", "OutOfMemory"])


@st.composite
def pods(draw: st.DrawFn) -> PodView:
    attempt, slot = draw(st.integers(1, 3)), draw(small)
    pod = make_head(attempt) if draw(st.booleans()) else make_worker(slot, attempt, draw(st.integers(0, 2)))
    if draw(st.booleans()):
        pod = ended(pod, draw(outcomes))
    changes: dict[str, Any] = {
        "phase": draw(st.sampled_from([pod.phase, "Pending", "Unknown", "Failed", "Succeeded", ""])),
        "is_running": draw(st.booleans()),
        "is_deleting": draw(st.booleans()),
        "deletion_timestamp": draw(
            st.one_of(st.none(), st.integers(-400, 100).map(lambda s: NOW + timedelta(seconds=s)))
        ),
        "exit_code": draw(st.one_of(st.none(), st.integers(-1, 255))),
        "message": draw(st.one_of(st.just(pod.message), texts)),
        "problem": draw(st.one_of(st.none(), st.just(Problem("Unschedulable", "no node")))),
        "finished_at": draw(st.one_of(st.none(), st.just(NOW), st.just(NOW + timedelta(hours=3)))),
        "role": draw(st.sampled_from([pod.role, pod.role, "", "other"])),
    }
    return replace(pod, **changes)


statuses = st.fixed_dictionaries(
    {},
    optional={
        "phase": st.sampled_from(["", "Pending", "Starting", "Running", "Restarting", "Succeeded", "Failed", "?"]),
        "attempt": st.integers(-1, 1001),
        "round": st.integers(-1, 40),
        "restarts": st.fixed_dictionaries(
            {}, optional=dict.fromkeys(("application", "disruptions", "withoutProgress"), small)
        ),
        "startTime": times,
        "head": st.fixed_dictionaries({"pod": st.sampled_from(["", names.head_name("digits", UID, 1)])}),
        "workers": st.fixed_dictionaries({"desired": small, "ready": small}),
        "progress": st.fixed_dictionaries(
            {
                "attempt": small,
                "state": st.sampled_from(["", "STARTING", "RUNNING", "RESTARTING", "FINISHED", "ERRORED"]),
            }
        ),
        "resize": st.one_of(st.none(), st.fixed_dictionaries({"workerPods": small, "afterCheckpoint": small})),
        "checkpoint": st.one_of(st.none(), st.fixed_dictionaries({"index": small, "attempt": small, "uri": texts})),
        "bestCheckpoint": st.one_of(st.none(), st.fixed_dictionaries({"index": small, "attempt": small, "uri": texts})),
        "runURI": texts,
        "failure": st.one_of(st.none(), st.fixed_dictionaries({"class": classes, "attempt": small, "time": times})),
        "conditions": st.one_of(
            st.none(),
            st.lists(
                st.fixed_dictionaries(
                    {
                        "type": st.sampled_from(["Running", "Complete", "Failed", "Stalled", "Reconciling"]),
                        "status": st.sampled_from(["True", "False", "Unknown"]),
                        "reason": texts,
                    }
                ),
                max_size=3,
            ),
        ),
    },
)


scalings = st.one_of(
    st.integers(1, 3).map(lambda n: {"numWorkers": n}),
    st.tuples(st.integers(1, 2), st.integers(2, 4), st.integers(2, 4)).map(
        lambda t: {"minWorkers": t[0], "maxWorkers": max(t[1:]), "desiredWorkers": t[2]}
    ),
)


@st.composite
def observations(draw: st.DrawFn) -> Observed:
    spec = make_spec(scaling=draw(scalings), backoffLimit=draw(st.integers(0, 2)))
    observed = make_observed(
        *draw(st.lists(pods(), max_size=6, unique_by=lambda pod: pod.name)), status=draw(statuses), spec=spec
    )
    changes: dict[str, Any] = {"is_deleting": draw(st.booleans()) and draw(st.booleans())}
    if draw(st.integers(0, 9)) == 0:
        changes |= {"spec": InvalidSpec("spec.image", "missing")}
    return replace(observed, **changes)


@given(observations())
def test_any_state_has_a_plan_with_at_most_one_new_head(observed: Observed) -> None:
    wanted = plan(observed)
    new_heads = [c for c in wanted.creates if c.kind == "Pod" and c.name.endswith("-head")]
    assert len(new_heads) <= 1
    if new_heads and new_heads[0].name not in {p.name for p in observed.pods}:
        others = [p for p in observed.pods if p.role == names.HEAD and not p.is_over]
        fenced = [p for p in others if p.is_deleting and p.gone_by and p.gone_by + timedelta(seconds=30) <= NOW]
        assert others == fenced, (
            "a new head is only created when no other one may still run, or its node is unreachable"
        )
    assert all(d.uid in {p.uid for p in observed.pods} for d in wanted.deletes), "only observed pods are deleted"
    if observed.is_deleting:
        assert not wanted.creates and wanted.delete_job is None


@given(observations())
def test_the_same_state_gives_the_same_plan(observed: Observed) -> None:
    first, second = plan(observed), plan(observed)
    assert first == second
    assert [create.build() for create in first.creates] == [create.build() for create in second.creates]


ACTIONS = st.sampled_from(
    [
        "pass",
        "start",
        "report",
        "commit",
        "restarting",
        "lose-head",
        "lose-worker",
        "fail-worker",
        "application",
        "later",
        "done",
        "resize-2",
        "resize-4",
    ]
)


def elastic_spec(desired: int) -> dict[str, Any]:
    return {"scaling": {"minWorkers": 1, "maxWorkers": 4, "desiredWorkers": desired}, "backoffLimit": 3}


def _act(sim: Simulation, action: str) -> None:
    workers = [name for name, pod in sim.pods.items() if pod.role == names.WORKER]
    if action == "pass":
        sim.reconcile()
    elif action == "start":
        sim.start_pods()
    elif action == "later":
        sim.later(400)
    elif action in ("report", "commit", "restarting") and sim.status["attempt"] and sim.live_heads:
        index = (sim.status.get("checkpoint") or {}).get("index", -1) + 1
        sim.report(
            "RESTARTING" if action == "restarting" else "RUNNING", checkpoint=index if action == "commit" else None
        )
    elif action == "lose-head" and sim.live_heads:
        sim.lose(sim.head.name)
    elif action == "application" and sim.live_heads:
        sim.end_head("Application")
    elif action == "done" and sim.live_heads and sim.head.is_running:
        sim.end_head("Succeeded")
    elif action.startswith("resize-") and sim.spec.scaling.is_elastic:
        sim.apply(**elastic_spec(int(action[-1])))
    elif action == "lose-worker" and workers:
        sim.lose(workers[-1])
    elif action == "fail-worker" and workers:
        sim.end_pod(workers[0], "Infrastructure")


@given(
    st.lists(ACTIONS, max_size=30),
    st.one_of(
        st.integers(1, 3).map(lambda n: {"scaling": {"numWorkers": n}, "backoffLimit": 3}),
        st.integers(1, 4).map(elastic_spec),
    ),
)
def test_any_order_of_events_settles_with_one_head_and_counted_restarts(
    actions: list[str], spec: dict[str, Any]
) -> None:
    sim = Simulation(**spec)
    for action in actions:
        _act(sim, action)  # the simulation itself asserts that there are never two live heads
    for _ in range(8):
        sim.later(400)
        sim.settle()
        sim.start_pods()
        if sim.live_heads and sim.status.get("resize"):  # a smaller group waits for a commit
            sim.report(checkpoint=(sim.status.get("checkpoint") or {}).get("index", -1) + 1)
    last = plan(sim.observe())
    assert is_empty(last), "without a change the plan is empty"
    assert last.wake_at is None or last.wake_at > sim.now, "without a change no pass follows at once"
    check_attempts(sim.api.log)
    restarts = sim.losses
    assert restarts["application"] <= 3
    lost = restarts["application"] + restarts["infrastructure"]
    assert sim.status["attempt"] - 1 + sim.status["round"] <= lost + sim.status["round"]
    if sim.check_condition("Complete") or sim.check_condition("Failed"):
        assert not [p for p in sim.pods.values() if p.role == names.WORKER]
    else:
        assert len(sim.live_heads) == 1
        assert (
            len([p for p in sim.pods.values() if p.role == names.WORKER and p.is_live])
            == to_job(sim.observe()).wanted_workers
        )


@given(observations())
def test_a_start_or_restart_deadline_never_ends_running_training(observed: Observed) -> None:
    job = to_job(replace(observed, spec=make_spec(startDeadlineSeconds=1, restartDeadlineSeconds=1)))
    waiting = Waiting(since="2020-01-01T00:00:00Z")
    job = replace(job, status=job.status.model_copy(update={"waiting": waiting}))
    wanted = plan(job)
    if job.is_training and job.are_enough_up and wanted.status is not None and "failure" in wanted.status.fields:
        assert wanted.status.fields["failure"]["class"] != "Startup"


@given(observations(), st.sampled_from(["railhead-driver-test", "railhead-driver-2-0"]))
def test_every_plan_that_creates_a_pod_creates_the_objects_it_refers_to(observed: Observed, bundle: str) -> None:
    """Also after an upgrade, when the running pods use a driver with another name.

    But for those of an attempt that an operator began whose own have other names.
    """
    wanted = plan(replace(observed, settings=replace(observed.settings, bundle_name=bundle)))
    created = {(create.kind, create.name) for create in wanted.creates}
    for pod in (create for create in wanted.creates if create.kind == "Pod"):
        is_of_attempt = pod.build()["metadata"]["labels"][names.LABEL_ATTEMPT] == str(observed.attempt)
        status = observed.status
        kept = {("ConfigMap", status.driver), ("ConfigMap", status.input), ("Secret", status.secret)}
        assert referred_to(dict(pod.build())) - (kept if is_of_attempt else set()) <= created


def referred_to(pod: dict[str, Any]) -> set[tuple[str, str]]:
    """ConfigMaps and Secrets in its volumes and environment, and the Service of its DNS name."""
    spec = pod["spec"]
    volumes = spec["volumes"]
    found = {("ConfigMap", volume["configMap"]["name"]) for volume in volumes if "configMap" in volume}
    found |= {("Secret", volume["secret"]["secretName"]) for volume in volumes if "secret" in volume}
    for variable in (variable for container in spec["containers"] for variable in container.get("env", [])):
        if "secretKeyRef" in variable.get("valueFrom", {}):
            found.add(("Secret", variable["valueFrom"]["secretKeyRef"]["name"]))
    assert len(found) >= 3, "driver, input and token"
    return found | ({("Service", spec["subdomain"])} if "subdomain" in spec else set())
