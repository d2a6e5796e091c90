"""Where a rank runs, and what becomes of the head pod's answer about the stacks."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import pytest

from railhead.client.exit_codes import ClientError
from railhead.client.explain.ranks import RankStack, build_question, find_rank, group_stacks, parse_stacks
from railhead.contract import environment
from railhead.driver.messages.rank_marks import BEGIN, write_marks

GONE = 2**22 + 1  # no process has that number


def write_log(folder: Path, pid: int, text: str) -> None:
    logs = folder / "session_2026-01-01" / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    (logs / f"worker-abc-01000000-{pid}.out").write_text(text)


def ask_here(rank: int, folder: Path) -> str:
    """Asks as in a pod whose Ray keeps its session in the folder."""
    variables = {**os.environ, environment.TEMP: str(folder)}
    return subprocess.run(build_question(rank), capture_output=True, text=True, check=True, env=variables).stdout


def begin(rank: int, capsys: pytest.CaptureFixture[str]) -> str:
    """What a rank writes first."""
    capsys.readouterr()
    write_marks(BEGIN, rank=rank, process="node-1")
    return "Ray's own line\n" + capsys.readouterr().out


@pytest.mark.parametrize(("rank", "is_there"), [(1, True), (10, False), (3, False)])
def test_the_question_finds_a_rank_that_lives(
    rank: int, is_there: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_log(tmp_path, os.getpid(), begin(1, capsys))
    write_log(tmp_path, GONE, begin(3, capsys))
    assert ask_here(rank, tmp_path) == (f"{os.getpid()}\n" if is_there else "")


def test_the_question_has_no_answer_without_logs(tmp_path: Path) -> None:
    assert ask_here(0, tmp_path) == ""


@pytest.mark.parametrize(("answers", "pod"), [({"w0": "", "w1": "17\n"}, "w1"), ({"w0": "", "w1": ""}, None)])
async def test_all_pods_are_asked(answers: dict[str, str], pod: str | None) -> None:
    async def ask(name: str, question: Sequence[str]) -> str:
        assert "begin:5:" in question[-1]
        return answers[name]

    assert await find_rank(5, list(answers), ask) == pod


async def test_a_pod_that_does_not_respond_hides_no_other() -> None:
    async def ask(name: str, question: Sequence[str]) -> str:
        if name == "lost":
            await asyncio.sleep(600)
        if name == "broken":
            raise ClientError("no container")
        return "17\n" if name == "w1" else ""

    assert await asyncio.wait_for(find_rank(5, ["lost", "broken", "w1"], ask), 20) == "w1"
    with pytest.raises(ClientError, match="no container"):
        await find_rank(5, ["broken", "w0"], ask)


def rank(number: int, place: str, text: str = "s") -> RankStack:
    return RankStack(number, f"w-{number}" if place else "", place, text if place else "")


def test_the_smallest_group_of_ranks_comes_first_and_each_stack_once() -> None:
    stacks = [
        *(rank(number, "at t.py:9 in step") for number in (0, 2, 3)),
        rank(1, "at t.py:4 in load", "x"),
        rank(4, ""),
    ]
    assert group_stacks(stacks) == [
        ("rank 1 (pod w-1): at t.py:4 in load", "x"),
        ("rank 4: does not respond: native code holds the GIL, or the process is stopped", ""),
        ("ranks 0 and 2-3: at t.py:9 in step", "s"),
    ]


def test_the_answer_is_read_in_the_order_of_ranks() -> None:
    stacks = [rank(0, "at a"), rank(1, ""), rank(2, "at b")]
    assert parse_stacks(json.dumps([asdict(each) for each in reversed(stacks)]), "h") == stacks


@pytest.mark.parametrize(
    "output",
    [
        "",
        "no JSON",
        "{}x",
        "3",
        "[3]",
        "[[" * 100_000,
        '[{"rank": 0}]',
        '[{"rank": true, "pod": "", "place": "", "text": ""}]',
        '[{"rank": "0", "pod": "", "place": "", "text": ""}]',
        '[{"rank": 0, "pod": "", "place": {}, "text": ""}]',
    ],
)
def test_a_pod_that_answers_anything_else_is_named(output: str) -> None:
    with pytest.raises(ClientError, match="pod h did not return a list of stacks"):
        parse_stacks(output, "h")
