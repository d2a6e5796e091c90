"""Calls to the ranks' processes: who answered, who failed, who is too slow; and what that costs in a large group."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from railhead.driver.train_controller.worker_group import Group, RankAnswer, call_ranks


class Reference:
    """Of Ray's; counts comparisons."""

    comparisons = 0

    def __init__(self, value: object) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        Reference.comparisons += 1
        return self is other


SLOW, BROKEN = object(), ValueError("no")


def read(reference: Reference) -> object:
    if isinstance(reference.value, Exception):
        raise reference.value
    return reference.value


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> Any:
    def wait(
        references: list[Reference], *, num_returns: int, timeout: float
    ) -> tuple[list[Reference], list[Reference]]:
        assert num_returns == len(references) and timeout == 3.0
        return [each for each in references if each.value is not SLOW], []

    monkeypatch.setattr("ray.wait", wait)
    monkeypatch.setattr("ray.get", read)
    return SimpleNamespace(execute_single_async=lambda rank, function, *arguments: Reference(function(*arguments)))


def test_each_rank_receives_its_own_arguments_and_has_its_own_answer(workers: Any) -> None:
    each = {0: ("zero",), 1: (SLOW,), 2: (BROKEN,)}
    answers = call_ranks(workers, each, lambda value: value, each=each, timeout=3.0)
    assert answers == {0: RankAnswer("zero"), 1: RankAnswer(), 2: RankAnswer(error=BROKEN)}


def test_a_call_to_all_ranks_of_a_large_group_compares_no_two_of_them(workers: Any) -> None:
    Reference.comparisons = 0
    assert len(call_ranks(workers, range(4096), lambda: "here", timeout=3.0)) == 4096
    assert Reference.comparisons == 0


def test_a_replaced_rank_leaves_the_others_known() -> None:
    def make(node: str) -> Any:
        return SimpleNamespace(metadata=SimpleNamespace(node_id=node, pid=7, node_ip=f"ip-{node}", hostname=node))

    workers = [make("a"), make("b")]
    whole: Any = SimpleNamespace(get_workers=lambda: workers)
    group = Group()
    group.started(whole, whole)
    workers[1] = make("c")
    group.before_training_context(workers[1:])
    group.started(SimpleNamespace(get_workers=lambda: workers[1:]), whole)
    assert [group.find_rank(f"(pid=7, ip=ip-{node})") for node in "abc"] == [0, -1, 1]
