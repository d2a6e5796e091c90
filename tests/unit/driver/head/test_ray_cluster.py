"""The driver in the Ray cluster: which nodes have joined, and which of them have the wrong type of GPU."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from railhead.contract.job_input import ScalingInput
from railhead.contract.report import Report
from railhead.driver.head import ray_cluster
from railhead.driver.head.publisher import Publisher
from railhead.driver.head.ray_cluster import AcceleratorCheck, list_wrong_nodes
from railhead.driver.mailbox.mailbox import Mailbox
from railhead.driver.messages.attempt_errors import JobRefused
from tests.ray.pods import make_job
from tests.unit.driver.pod.test_ray_start import POD


def test_keeps_counting_nodes_after_the_gcs_did_not_respond(monkeypatch: pytest.MonkeyPatch) -> None:
    node = {"Alive": True, "Resources": {"CPU": 1.0}}
    answers: Iterator[list[dict[str, Any]]] = iter([[node], [], [node, node]])

    def answer() -> list[dict[str, Any]]:
        found = next(answers, [])
        if not found:
            raise ConnectionError("no answer")
        return found

    logged: list[str] = []
    monkeypatch.setattr("ray.nodes", answer)
    monkeypatch.setattr(ray_cluster, "log", logged.append)
    monkeypatch.setattr("ray.is_initialized", lambda: len(logged) < 2)
    monkeypatch.setattr(ray_cluster, "time", SimpleNamespace(sleep=lambda seconds: None))
    ray_cluster.watch_nodes(POD, make_job(), Mock(spec=Publisher), on_fatal=print)
    assert logged == ["1 of 2 worker pods have joined", "2 of 2 worker pods have joined"]


NODES = 2


def make_gpu_job(accelerator: str | None) -> Any:
    return make_job(scaling=ScalingInput(NODES, use_gpu=True, accelerator_type=accelerator))


def make_node(number: int, *types: str) -> dict[str, Any]:
    resources = {f"accelerator_type:{name}": 1.0 for name in types}
    return {
        "NodeID": f"id-{number}",
        "NodeManagerAddress": f"10.0.0.{number}",
        "NodeManagerHostname": f"job-w{number}-0",
        "Resources": {"CPU": 1.0, "GPU": 1.0, **resources},
    }


class Looks:
    """The check of one attempt, with what it reports."""

    def __init__(self, publisher: Publisher, *, has_run: bool = False) -> None:
        self.publisher = publisher
        self._check = AcceleratorCheck(make_gpu_job("H100"), wanted=NODES, has_run=has_run)

    def look(self, *nodes: dict[str, Any]) -> tuple[str, ...]:
        self._check.check(list(nodes), self.publisher)
        return self.publisher.build_report().lost_pods


@pytest.fixture
def publisher(tmp_path: Any) -> Publisher:
    return Publisher(endpoint=None, mailbox=Mailbox(tmp_path), base=Report("ns", "n", "u", 1, "STARTING"))


def test_a_job_without_a_type_accepts_every_node() -> None:
    assert list_wrong_nodes(make_gpu_job(None), [make_node(1), make_node(2, "A100")]) == []


def test_nodes_with_the_type_are_accepted(publisher: Publisher) -> None:
    assert Looks(publisher).look(make_node(1, "H100"), make_node(2, "H100", "A100-80G")) == ()
    assert publisher.build_report().warning is None


def test_a_job_none_of_whose_nodes_has_the_type_is_refused(publisher: Publisher) -> None:
    looks = Looks(publisher)
    assert looks.look(make_node(1, "A100")) == (), "the other one may have it"
    with pytest.raises(JobRefused) as caught:
        looks.look(make_node(1, "A100"), make_node(2, "A100"))
    failure = caught.value.failure
    assert failure.reason == "AcceleratorNotThere"
    assert failure.message.startswith("scaling.acceleratorType H100: worker pod job-w1-0 at 10.0.0.1 has A100; choose")
    assert "worker.podTemplate.spec.nodeSelector" in failure.message


def test_a_single_wrong_node_is_reported_and_its_pod_replaced_once(
    publisher: Publisher, capsys: pytest.CaptureFixture[str]
) -> None:
    looks = Looks(publisher)
    assert looks.look(make_node(1, "H100"), make_node(2)) == ("job-w2-0",)
    warning = publisher.build_report().warning
    assert warning is not None and warning.reason == "AcceleratorNotThere"
    assert "worker pod job-w2-0 at 10.0.0.2 has no GPU of a type that Ray knows; the pod is replaced" in warning.message
    looks.look(make_node(1, "H100"), make_node(2))
    assert capsys.readouterr().out.count("job-w2-0") == 1
    assert looks.look(make_node(1, "H100"), make_node(3)) == ("job-w3-0", "job-w2-0")
    assert publisher.build_report().warning is not None
    looks.look(make_node(1, "H100"), make_node(4, "H100"))
    assert publisher.build_report().warning is None, "it is over"


def test_a_job_that_has_run_is_never_refused(publisher: Publisher) -> None:
    """After the loss of its head all of its GPUs may be silent."""
    assert Looks(publisher, has_run=True).look(make_node(1), make_node(2)) == ("job-w1-0", "job-w2-0")


def test_an_attempt_that_had_a_right_node_is_not_refused_later(publisher: Publisher) -> None:
    looks = Looks(publisher)
    looks.look(make_node(1, "H100"), make_node(2, "H100"))
    assert looks.look(make_node(3), make_node(4)) == ("job-w3-0", "job-w4-0")
