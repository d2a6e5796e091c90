"""What the operator keeps of a pod and of a job, in bytes.

docs/operate/scaling.md sizes the memory limit from these bounds.
"""

from __future__ import annotations

import gc
import json
import random
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from railhead.api import names
from railhead.controller.cluster_state import ClusterState
from railhead.controller.keyed_queue import KeyedQueue
from railhead.controller.store import Store
from tests.model.client import make_client
from tests.unit.builders import RUNNING_STATUS, SPEC
from tests.unit.controller.raws import Object, make_container, make_job, make_pod
from tests.unit.controller.test_keyed_queue import FakeClock

COUNT = 30
TIME = "2026-01-01T12:00:00Z"
CODE = "\n".join(random.Random(0).randbytes(15).hex() for _ in range(528))  # 16 KiB, and packing halves it at best
COMPLETE = [{"type": "Complete", "status": "True", "reason": "Succeeded", "message": "", "lastTransitionTime": TIME}]
VARIABLES = [{"name": f"VARIABLE_{number}", "value": "a value"} for number in range(20)]
LARGE_SPEC: Object = {
    **SPEC,
    "trainer": {"trainFunc": "train:train_func", "trainLoopConfig": {f"parameter_{n}": n / 10 for n in range(30)}},
    "worker": {"podTemplate": {"spec": {"containers": [{"name": names.CONTAINER, "env": VARIABLES}]}}},
}


def as_received(obj: Object) -> Any:
    """With its own strings, as the parser of each response makes them."""
    return json.loads(json.dumps(obj))


def count_bytes(fill: Callable[[], object]) -> float:
    """Bytes per object that stay after `fill`, which keeps COUNT objects and returns their owner."""
    fill()  # what is imported and computed once
    gc.collect()
    tracemalloc.start()
    try:
        kept = fill()
        gc.collect()
        return tracemalloc.get_traced_memory()[0] / COUNT if kept else 0.0
    finally:
        tracemalloc.stop()


def make_running_pod(number: int) -> Any:
    conditions = [
        {"type": type_, "status": "True", "lastTransitionTime": TIME}
        for type_ in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
    ]
    container = {**make_container(running={"startedAt": TIME}), "image": "i" * 80, "imageID": "d" * 150}
    status = {"phase": "Running", "conditions": conditions, "containerStatuses": [container], "podIP": "10.0.0.1"}
    labels = {names.LABEL_ROLE: names.WORKER, names.LABEL_ATTEMPT: "1", names.LABEL_SLOT: str(number)}
    pod = make_pod(
        f"a-rather-long-name-of-a-job-{number:06}-abcdef-1-w{number}-0",
        owner=f"0f1e2d3c-1111-2222-3333-{number // 4:012}",
        status=status,
        labels={**labels, names.LABEL_ROUND: "0"},
        uid=f"4f1e2d3c-1111-2222-3333-{number:012}",
        resourceVersion=str(1_000_000 + number),
        creationTimestamp=TIME,
        managedFields=[{"manager": "railhead", "fieldsV1": {"f:spec": {f"f:{n}": {} for n in range(100)}}}],
    )
    pod["spec"]["nodeName"] = f"a-node-of-the-cluster-{number}"
    return as_received(pod)


def test_a_pod_takes_less_than_2_kb() -> None:
    def fill() -> object:
        state = ClusterState(make_client(), Store(), KeyedQueue(FakeClock().call_later))
        for number in range(COUNT):
            state.record_pod(make_running_pod(number))
        return state

    assert 300 < count_bytes(fill) < 2_000


@pytest.mark.parametrize(
    ("status", "source", "bound"),
    [
        ({**RUNNING_STATUS, "phase": "Succeeded", "conditions": COMPLETE}, None, 3_000),
        ({"phase": "Suspended"}, None, 3_000),
        ({"phase": "Suspended"}, {"inline": {"train.py": CODE}}, 13_000),
        (RUNNING_STATUS, None, 40_000),
        (RUNNING_STATUS, {"inline": {"train.py": CODE}}, 60_000),
    ],
)
def test_a_job_takes_few_bytes_once_it_rests(status: Object, source: Object | None, bound: int) -> None:
    spec = {**LARGE_SPEC, "source": source} if source else LARGE_SPEC

    def fill() -> object:
        store = Store()
        for number in range(COUNT):
            uid = f"0f1e2d3c-1111-2222-3333-{number:012}"
            store.put_job(
                as_received(make_job(1_000_000 + number, name=f"job-{number}", uid=uid, spec=spec, status=status))
            )
        return store

    assert 300 < count_bytes(fill) < bound
