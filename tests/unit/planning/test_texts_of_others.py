"""Nothing that a kubelet, a scheduler, a registry or a webhook writes reaches a terminal as a control character.

Status, Events and the operator's log show their words, and a user may have chosen them: a registry's answer, the
message of a policy that quotes the job, a pod's own reason.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from railhead.kube.errors import classify_response
from tests.model.api_server import JOBS
from tests.model.operator import PODS
from tests.unit.planning.simulation import KEY, Simulation

HOSTILE = "a\x1b]0;owned\x07b\x9b31mc\x08d\re\u202ef\u2028g\u200bh\x85i\ufeffj"
WAITING = {"containerStatuses": [{"name": "ray", "state": {"waiting": {"reason": "ErrImagePull", "message": HOSTILE}}}]}
ENDED_INIT = {
    "phase": "Failed",
    "initContainerStatuses": [{"name": HOSTILE, "state": {"terminated": {"exitCode": 1, "message": HOSTILE}}}],
}
SCHEDULED = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": HOSTILE}
TARGET = {"type": "DisruptionTarget", "status": "True", "reason": HOSTILE, "message": HOSTILE}
REFUSED = {"phase": "Failed", "reason": HOSTILE, "message": HOSTILE}
ENDED = {"name": "ray", "state": {"terminated": {"exitCode": 9, "reason": HOSTILE, "message": HOSTILE}}}
STATES: dict[str, dict[str, Any]] = {
    "waits for its image": {"phase": "Pending", **WAITING},
    "cannot be scheduled": {"phase": "Pending", "conditions": [SCHEDULED]},
    "is refused by its node": REFUSED,
    "is disrupted": {**REFUSED, "conditions": [TARGET]},
    "has an init container that failed": ENDED_INIT,
    "has ended": {"phase": "Failed", "containerStatuses": [ENDED]},
}


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, each in value.items():
            yield key
            yield from strings(each)
    elif isinstance(value, list):
        for each in value:
            yield from strings(each)


def check(sim: Simulation, caplog: pytest.LogCaptureFixture) -> None:
    """All that the operator wrote; a message may have lines."""
    shown = [entry.object for entry in sim.api.log if entry.plural == "events"]
    shown += [entry.object.get("status", {}) for entry in sim.api.log if entry.plural == JOBS]
    found = {text for text in strings(shown) if not text.replace("\n", "").isprintable()}
    assert not found, ascii(found)
    assert any("owned" in text for text in strings(shown)), "the words themselves are shown"
    lines = [record.getMessage() for record in caplog.records]
    assert not [ascii(line) for line in lines if not line.isprintable()]


def patch(sim: Simulation, pod: str, status: dict[str, Any]) -> None:
    sim.api.patch((PODS, KEY.namespace, pod), {"status": status}, subresource="status")


BEFORE_IT_STARTS = ("waits for its image", "cannot be scheduled")
CASES = [(state, False) for state in STATES] + [(state, True) for state in STATES if state not in BEFORE_IT_STARTS]


@pytest.mark.parametrize("which", ["head", "w0"])
@pytest.mark.parametrize(("state", "is_training"), CASES)
def test_a_pods_words_are_cleaned(state: str, which: str, is_training: bool, caplog: pytest.LogCaptureFixture) -> None:
    sim = Simulation()
    if is_training:
        sim.run_until_training()
    else:
        sim.settle()
    [pod] = [name for name in sim.pods if which in name.removeprefix("digits")]
    if not is_training and state != "cannot be scheduled":
        sim.api.bind(pod, "node-1", namespace=KEY.namespace)
    patch(sim, pod, STATES[state])
    with caplog.at_level(logging.INFO):
        for _ in range(4):
            sim.later(120)
            sim.settle()
    check(sim, caplog)


def test_the_words_of_a_policy_that_rejects_a_pod_are_cleaned(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        sim = Simulation(rejects=lambda body: f'admission webhook "a.example" denied the request: {HOSTILE}')
        for _ in range(3):
            sim.settle()
            sim.later(60)
    check(sim, caplog)


def test_the_words_of_a_policy_that_denies_a_delete_are_cleaned(caplog: pytest.LogCaptureFixture) -> None:
    sim = Simulation()
    sim.run_until_training()
    message = f'admission webhook "a.example" denied the request: {HOSTILE}'
    error = classify_response(403, json.dumps({"reason": "Forbidden", "message": message}).encode())
    sim.operator.client.faults.script[("delete", sim.head.name)] = [error] * 1000
    sim.apply(suspend=True)
    with caplog.at_level(logging.INFO):
        for _ in range(6):
            sim.reconcile()
            sim.later(60)
    check(sim, caplog)
