"""The store: versions only increase, in whatever order events arrive, and a pod leads to its job."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railhead.api import names
from railhead.api.names import head_name
from railhead.api.parsed_spec import InvalidSpec, JobKey
from railhead.api.spec import TrainJobSpec
from railhead.contract.loss_rate import JobLosses
from railhead.controller.observe import Owner, record_pod
from railhead.controller.store import Store
from railhead.planning.observed import Announced
from railhead.planning.pod_view import PodEvents, Problem
from tests.unit.builders import NOW, SETTINGS, SPEC, UID
from tests.unit.controller.raws import Object, make_job, make_pod

KEY = JobKey("default", "digits")
OWNER = Owner("default", UID)
PROBLEM = Problem("QuotaExceeded", "exceeded quota")
BAD_SPEC = {**SPEC, "scaling": {"numWorkers": 0}}


def version_of_job(store: Store) -> int | None:
    record = store.job(KEY)
    return record.version if record else None


def pod_names(store: Store, uid: str = UID) -> list[str]:
    return sorted(pod.name for pod in store.pods(Owner("default", uid)))


def find_key(store: Store, uid: str) -> JobKey | None:
    """The job that a pod with this owner leads to."""
    pod = make_pod("stranger", owner=uid)
    change_pod(store, None, pod)
    return change_pod(store, pod, None)


def change_pod(store: Store, old: Object | None, new: Object | None) -> JobKey | None:
    return store.change_pod(record_pod(old) if old else None, record_pod(new) if new else None)


def test_a_job_is_new_once() -> None:
    store = Store()
    assert store.put_job(make_job(3)) == KEY
    assert store.put_job(make_job(3)) is None
    assert store.put_job(make_job(2)) is None
    assert store.put_job(make_job(4)) == KEY
    assert [record.key for record in store.all_records()] == [KEY]
    assert find_key(store, UID) == KEY


def test_commits_count_as_announced_when_a_job_is_first_seen_and_when_a_lead_begins() -> None:
    store = Store()

    def announced() -> Announced | None:
        observed = store.observe(KEY, now=NOW, settings=SETTINGS)
        return observed.announced if observed else None

    store.put_job(make_job(1, status={"checkpoint": {"index": 2, "uri": "/c2", "attempt": 1}}))
    assert announced() == Announced(2)
    store.put_job(make_job(2, status={"checkpoint": {"index": 5, "uri": "/c5", "attempt": 1}}))
    assert announced() == Announced(2)
    store.begin_lead(at=NOW)
    assert announced() == Announced(5)
    store.note_announced(UID, Announced(6, NOW))
    assert announced() == Announced(6, NOW)
    store.drop_job(KEY, UID, version=9)
    store.note_announced(UID, Announced(7, NOW))
    assert announced() is None


def test_slow_ranks_count_as_announced_when_a_job_is_first_seen() -> None:
    slow = [{"rank": 3, "since": "2026-01-01T00:00:00Z"}, {"rank": 4}]
    store = Store()
    store.put_job(make_job(1, status={"progress": {"slowRanks": slow}}))
    observed = store.observe(KEY, now=NOW, settings=SETTINGS)
    assert observed is not None
    assert observed.announced == Announced(slow_ranks=frozenset({(3, "2026-01-01T00:00:00Z"), (4, "")}))


def test_notes_on_children_from_an_earlier_lead_are_forgotten() -> None:
    store = Store()
    store.put_job(make_job(1))
    pod = make_pod(head_name("digits", UID, 1))
    change_pod(store, None, pod)
    store.note_rejection(UID, PROBLEM, at=NOW)
    store.note_pod_events(store.pods(OWNER)[0], PodEvents(PROBLEM, NOW))
    before = store.observe(KEY, now=NOW, settings=SETTINGS)
    store.begin_lead(at=NOW)
    after = store.observe(KEY, now=NOW, settings=SETTINGS)
    assert before is not None
    assert after is not None
    assert (before.rejection is not None, after.rejection) == (True, None)
    assert before.pods != after.pods == store.pods(OWNER)
    assert (before.led_since, after.led_since) == (None, NOW)


def test_a_record_has_what_the_planner_needs() -> None:
    store = Store()
    metadata = {"deletionTimestamp": "2026-01-01T12:00:00Z"}
    store.put_job(make_job(3, generation=2, metadata=metadata, status={"attempt": 4, "phase": "Running"}))
    head = head_name("digits", UID, 1)
    change_pod(store, None, make_pod(head))
    observed = store.observe(KEY, now=NOW, settings=SETTINGS)
    assert observed is not None
    assert (observed.uid, observed.generation, observed.is_deleting) == (UID, 2, True)
    assert (observed.status.attempt, observed.status.phase) == (4, "Running")
    assert isinstance(observed.spec, TrainJobSpec)
    assert observed.spec.scaling.num_workers == 2
    assert [pod.name for pod in observed.pods] == [head]
    assert (observed.now, observed.settings) == (NOW, SETTINGS)


def test_an_unknown_job_is_not_observed() -> None:
    assert Store().observe(KEY, now=NOW, settings=SETTINGS) is None


def test_a_spec_is_parsed_once_per_generation() -> None:
    store = Store()

    def put(version: int, **changes: Any) -> Any:
        store.put_job(make_job(version, **changes))
        record = store.job(KEY)
        assert record is not None
        return record.read().spec

    first = put(1)
    assert put(2, status={"attempt": 1}) is first
    changed = put(3, generation=2, spec={**SPEC, "scaling": {"numWorkers": 5}})
    assert changed.scaling.num_workers == 5
    other = put(4, uid="another", generation=2)
    assert other.scaling.num_workers == 2


@pytest.mark.parametrize("spec", [BAD_SPEC, None, {}, "text", {**SPEC, "unknown": 1}])
def test_an_invalid_spec_is_an_observation_and_no_exception(spec: Any) -> None:
    store = Store()
    assert store.put_job(make_job(1, spec=spec)) == KEY
    record = store.job(KEY)
    assert record is not None
    found = record.read().spec
    assert isinstance(found, InvalidSpec)
    assert found.field.startswith("spec")


def test_a_fixed_spec_has_no_error() -> None:
    store = Store()
    store.put_job(make_job(1, spec=BAD_SPEC))
    store.put_job(make_job(2, spec=BAD_SPEC, status={"phase": "Pending"}))
    store.put_job(make_job(3, generation=2))
    record = store.job(KEY)
    assert record is not None
    assert isinstance(record.read().spec, TrainJobSpec)


def test_a_deleted_job_is_gone_and_a_late_response_does_not_bring_it_back() -> None:
    store = Store()
    store.put_job(make_job(3))
    store.drop_job(KEY, UID, version=5)
    assert store.put_job(make_job(4)) is None
    assert (store.job(KEY), find_key(store, UID), [record.key for record in store.all_records()]) == (None, None, [])


def test_a_new_job_with_an_old_name_is_another_job() -> None:
    store = Store()
    store.put_job(make_job(3, status={"attempt": 7}))
    change_pod(store, None, make_pod("old", owner=UID))
    store.drop_job(KEY, UID, version=5)
    store.put_job(make_job(6, uid="second"))
    observed = store.observe(KEY, now=NOW, settings=SETTINGS)
    assert observed is not None
    assert (observed.uid, observed.status.attempt, observed.pods) == ("second", 0, ())
    assert change_pod(store, None, make_pod("old", owner=UID)) is None  # of no known job


def test_a_late_deletion_event_leaves_the_successor() -> None:
    store = Store()
    store.put_job(make_job(3))
    store.put_job(make_job(6, uid="second"))
    store.drop_job(KEY, UID, version=5)
    assert version_of_job(store) == 6
    assert find_key(store, "second") == KEY
    assert find_key(store, UID) is None


def test_a_predecessor_stays_gone_without_a_deletion_event() -> None:
    store = Store()
    store.put_job(make_job(3))
    store.put_job(make_job(6, uid="second"))
    assert find_key(store, UID) is None
    store.drop_job(KEY, "second", version=8)
    assert store.put_job(make_job(4)) is None
    assert store.job(KEY) is None


JOB_EVENTS = [
    ("put", make_job(1, uid="first")),
    ("put", make_job(2, uid="first", status={"attempt": 1})),
    ("drop", make_job(3, uid="first")),
    ("put", make_job(4, uid="second")),
    ("put", make_job(5, uid="second", status={"attempt": 1})),
]


def send(store: Store, event: tuple[str, Object]) -> None:
    verb, raw = event
    if verb == "put":
        store.put_job(raw)
    else:
        store.drop_job(KEY, raw["metadata"]["uid"], version=int(raw["metadata"]["resourceVersion"]))


@given(st.permutations(JOB_EVENTS), st.lists(st.sampled_from(JOB_EVENTS), max_size=5))
def test_the_newest_version_wins_in_any_order_and_with_repeats(
    events: list[tuple[str, Object]], again: list[tuple[str, Object]]
) -> None:
    store = Store()
    versions = []
    for event in [*events, *again]:
        send(store, event)
        versions.append(version_of_job(store))
    record = store.job(KEY)
    assert record is not None
    assert (record.uid, record.version, record.attempt) == ("second", 5, 1)
    assert (find_key(store, "second"), find_key(store, "first")) == (KEY, None)


@given(st.permutations([*JOB_EVENTS, ("drop", make_job(6, uid="second"))]), st.lists(st.sampled_from(JOB_EVENTS)))
def test_a_deleted_job_is_gone_in_any_order_of_events(
    events: list[tuple[str, Object]], again: list[tuple[str, Object]]
) -> None:
    store = Store()
    for event in [*events, *again]:
        send(store, event)
    assert store.job(KEY) is None
    assert find_key(store, "first") is find_key(store, "second") is None


def test_each_event_of_a_pod_leads_to_its_job() -> None:
    store = Store()
    store.put_job(make_job(1))
    pending, running = make_pod("w"), make_pod("w", status={"phase": "Running"})
    assert change_pod(store, None, pending) == KEY
    assert change_pod(store, pending, running) == KEY
    assert [pod.phase for pod in store.pods(OWNER)] == ["Running"]
    assert change_pod(store, running, None) == KEY
    assert store.pods(OWNER) == ()


def test_pods_may_arrive_before_their_job() -> None:
    store = Store()
    assert change_pod(store, None, make_pod("w")) is None
    store.put_job(make_job(1))
    assert pod_names(store) == ["w"]


def test_an_orphaned_pod_leaves_its_job() -> None:
    store = Store()
    store.put_job(make_job(1))
    pod = make_pod("w")
    change_pod(store, None, pod)
    assert change_pod(store, pod, make_pod("w", owner=None)) == KEY
    assert store.pods(OWNER) == ()


def test_a_head_is_known_by_its_uid_while_it_exists() -> None:
    store = Store()
    head = make_pod("h", labels={names.LABEL_ROLE: names.HEAD})
    successor = make_pod("h", labels={names.LABEL_ROLE: names.HEAD}, uid="uid-h2")
    change_pod(store, None, head)
    change_pod(store, None, make_pod("w", labels={names.LABEL_ROLE: names.WORKER}))
    change_pod(store, None, make_pod("foreign", owner=None, labels={names.LABEL_ROLE: names.HEAD}))
    assert [uid for uid in ("uid-h", "uid-w", "uid-foreign", "") if store.is_head(uid)] == ["uid-h"]
    change_pod(store, head, successor)
    assert [uid for uid in ("uid-h", "uid-h2") if store.is_head(uid)] == ["uid-h2"]
    change_pod(store, successor, None)
    assert not store.is_head("uid-h2")


def test_a_pod_that_takes_another_pods_name_belongs_to_its_own_job() -> None:
    store = Store()
    store.put_job(make_job(1))
    store.put_job(make_job(2, name="other", uid="other"))
    old, new = make_pod("w"), make_pod("w", owner="other")
    change_pod(store, None, old)
    assert change_pod(store, old, new) == JobKey("default", "other")
    assert (pod_names(store), pod_names(store, "other")) == ([], ["w"])


def test_a_foreign_pod_belongs_to_no_job() -> None:
    store = Store()
    store.put_job(make_job(1))
    assert change_pod(store, None, make_pod("w", owner=None)) is None
    assert store.pods(OWNER) == ()


def test_a_pod_of_another_namespace_belongs_to_no_job() -> None:
    """Whoever may create pods somewhere may write any owner into them."""
    store = Store()
    store.put_job(make_job(1))
    assert change_pod(store, None, make_pod("w", namespace="other")) is None
    assert store.pods(OWNER) == ()


def test_the_job_to_resume_from_is_found_in_the_same_namespace() -> None:
    store = Store()
    spec = {**SPEC, "resumeFrom": {"trainJob": "other"}}
    store.put_job(make_job(3, spec=spec))
    other = make_job(4, metadata={"name": "other", "uid": "u2", "namespace": "elsewhere"}, status={"attempt": 9})
    store.put_job(other)
    observed = store.observe(KEY, now=NOW, settings=SETTINGS)
    assert observed is not None and observed.source is None
    store.put_job(make_job(5, metadata={"name": "other", "uid": "u3"}, status={"attempt": 7}))
    observed = store.observe(KEY, now=NOW, settings=SETTINGS)
    assert observed is not None and observed.source is not None and observed.source.attempt == 7


def test_a_driver_is_shared_while_another_unfinished_job_in_the_namespace_uses_it() -> None:
    other = JobKey("default", "other")
    complete = [{"type": "Complete", "status": "True", "reason": "Succeeded"}]

    def is_shared(store: Store) -> bool:
        observed = store.observe(KEY, now=NOW, settings=SETTINGS)
        assert observed is not None
        return observed.is_driver_shared

    store = Store()
    store.put_job(make_job(1, status={"driver": "old"}))
    assert not is_shared(store), "only with itself"
    store.put_job(make_job(2, name="other", uid="uid-other", status={"driver": "old"}))
    assert is_shared(store)
    store.put_job(make_job(3, name="other", uid="uid-other", status={"driver": "new"}))
    assert not is_shared(store), "the other job's next attempt has another driver"
    store.put_job(make_job(4, name="other", uid="uid-other", status={"driver": "old"}))
    store.put_job(make_job(5, status={"driver": "old", "conditions": complete}))
    assert is_shared(store), "the other job is unfinished"
    store.put_job(make_job(6, name="other", uid="uid-again", status={"driver": "old"}))
    assert is_shared(store), "a new job of the same name counts once"
    store.drop_job(other, "uid-again", version=7)
    assert not is_shared(store)
    store.put_job(make_job(8, name="other", uid="uid-far", metadata={"namespace": "far"}, status={"driver": "old"}))
    assert not is_shared(store)


def test_avoided_nodes_are_summed_over_unfinished_jobs() -> None:
    complete = [{"type": "Complete", "status": "True", "reason": "Succeeded"}]

    def avoiding(*nodes: str) -> dict[str, Any]:
        return {"avoidedNodes": [{"name": node, "expirationTime": "2026-01-01T12:00:00Z"} for node in nodes]}

    store = Store()
    store.put_job(make_job(1, status=avoiding("a")))
    store.put_job(make_job(2, name="other", uid="uid-other", status=avoiding("a", "b")))
    assert store.avoided_nodes == 3
    store.put_job(make_job(3, status={"phase": "Suspended", **avoiding("a", "c")}))
    assert store.avoided_nodes == 4
    store.put_job(make_job(4, status={"conditions": complete, **avoiding("a", "c")}))
    assert store.avoided_nodes == 2
    store.put_job(make_job(5, name="other", uid="uid-again"))
    assert store.avoided_nodes == 0
    store.put_job(make_job(6, name="other", uid="uid-again", status=avoiding("a")))
    store.drop_job(JobKey("default", "other"), "uid-again", version=7)
    assert store.avoided_nodes == 0


def spend(version: int, *, gpu_seconds: int, losses: int, **metadata: Any) -> Object:
    status = {"goodput": {"gpuSeconds": gpu_seconds, "interruptions": {"Hardware": losses, "Application": 9}}}
    return make_job(version, status=status, metadata=metadata)


def test_the_losses_of_a_namespace_are_those_of_its_jobs_as_they_are_now() -> None:
    store = Store()
    other = JobKey("default", "other")
    elsewhere = JobKey("elsewhere", "other")
    store.put_job(spend(1, gpu_seconds=100, losses=1))
    store.put_job(spend(2, gpu_seconds=1000, losses=4, name="other", uid="u-2"))
    store.put_job(spend(3, gpu_seconds=9, losses=9, name="other", uid="u-3", namespace="elsewhere"))
    assert store.count_losses_of_others(KEY) == JobLosses(4, 1000)
    assert store.count_losses_of_others(other) == JobLosses(1, 100)
    assert store.count_losses_of_others(elsewhere) == JobLosses()
    assert store.count_losses_of_others(JobKey("default", "unknown")) == JobLosses(5, 1100)
    store.put_job(spend(4, gpu_seconds=200, losses=2))
    store.put_job(spend(3, gpu_seconds=700, losses=7))
    assert store.count_losses_of_others(other) == JobLosses(2, 200), "an older version changes nothing"
    store.put_job(spend(5, gpu_seconds=0, losses=2))
    assert store.count_losses_of_others(other) == JobLosses(), "without GPUs"
    store.drop_job(other, "u-2", version=6)
    assert store.count_losses_of_others(KEY) == JobLosses()
    store.drop_job(elsewhere, "u-3", version=7)
    assert not store._losses, "a namespace without jobs takes no memory"
