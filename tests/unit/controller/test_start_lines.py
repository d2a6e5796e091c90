"""The index of the jobs that wait for a quota: other jobs are not in it, and cost nothing."""

from __future__ import annotations

from typing import Any

from railhead.api.job import JobKey
from railhead.controller.store import Store
from railhead.planning.pod_view import Problem
from tests.unit.builders import NOW, SETTINGS
from tests.unit.controller.raws import make_job, make_pod
from tests.unit.controller.test_store import change_pod

WAITING = {"since": "2026-01-01T11:59:00Z", "quota": "gpus", "percent": 67}


def put(store: Store, name: str, *, namespace: str = "default", line: Any = WAITING, **status: Any) -> JobKey:
    store_status = {"phase": "Pending", "attempt": 1, **({"startLine": line} if line else {}), **status}
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{name}"}
    key = store.put_job(make_job(1, status=store_status, metadata=metadata))
    assert key is not None
    return key


def line_of(store: Store, key: JobKey) -> list[str]:
    observed = store.observe(key, now=NOW, settings=SETTINGS)
    assert observed is not None
    return [place.name for place in observed.line]


def test_a_job_sees_those_that_wait_in_its_namespace_only() -> None:
    store = Store()
    first = put(store, "first")
    put(store, "second")
    put(store, "elsewhere", namespace="other")
    never = put(store, "never-rejected", line=None)
    put(store, "suspended", phase="Suspended")
    put(store, "left", line={"released": 3})
    assert line_of(store, first) == ["second"]
    assert line_of(store, never) == []
    store.drop_job(JobKey("default", "second"), "uid-second", version=9)
    assert line_of(store, first) == []


def test_a_job_that_leaves_is_forgotten() -> None:
    store = Store()
    first, second = put(store, "first"), put(store, "second")
    raw = make_job(2, status={"phase": "Starting", "attempt": 1}, metadata={"name": "second", "uid": "uid-second"})
    assert store.put_job(raw) == second
    assert line_of(store, first) == [] and store.lines.others(second) != ()
    store.drop_job(first, "uid-first", version=9)
    assert store.lines.others(second) == () and store.lines._records == {}, "no namespace is kept"


def test_jobs_that_do_not_wait_are_not_in_the_index() -> None:
    store = Store()
    for number in range(1000):
        put(store, f"job-{number}", line=None)
    assert store.lines._records == {}
    waiting = put(store, "waiting")
    assert [len(each) for each in store.lines._records.values()] == [1]
    assert store.lines.find_creators("default", NOW) == [waiting]


def test_a_rejection_knows_whether_others_of_the_line_still_have_pods() -> None:
    store = Store()
    key = put(store, "first")
    put(store, "second", line={**WAITING, "since": "2026-01-01T11:59:30Z"})

    def reject() -> bool:
        store.note_rejection("uid-first", Problem("QuotaExceeded", "exceeded quota"), at=NOW)
        observed = store.observe(key, now=NOW, settings=SETTINGS)
        assert observed is not None and observed.rejection is not None
        return observed.rejection.is_contended

    assert not reject()
    pod = make_pod("second-w0", owner="uid-second")
    change_pod(store, None, pod)
    assert reject()
    change_pod(store, pod, None)
    assert not reject()
