"""What each rank does now: the head pod's answer, and the rows of a table."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from railhead.api.slow_ranks import SlowRankStatus
from railhead.client.exit_codes import ClientError
from railhead.client.explain.rank_use import QUESTION, RankAnswers, RankGpu, build_rows, parse_notes
from railhead.client.explain.ranks import RankStack
from railhead.contract import environment
from railhead.contract.report import Steps
from railhead.driver.mailbox import heartbeat
from railhead.driver.mailbox.mailbox import Mailbox
from railhead.driver.mailbox.values import FromController

USE = RankGpu(1, 0, 61 << 30, 80 << 30, 97)


def ask_here(folder: Path) -> str:
    """Asks as in a head pod with this folder."""
    variables = {**os.environ, environment.TEMP: str(folder)}
    return subprocess.run(QUESTION, capture_output=True, text=True, check=True, env=variables).stdout


def note_beat(folder: Path, fit: int, *gpus: heartbeat.GpuUse) -> None:
    """Writes what Ray Train's controller writes after a round of questions."""
    beat = heartbeat.Heartbeat(1, 2, 3, False, Steps(4), gpus=gpus, rank_steps=(4, -1, 3))

    def change(value: FromController) -> FromController:
        return replace(value, heartbeat=beat)

    Mailbox(folder, fit=fit).controller.change(change)


def test_the_question_finds_what_the_controller_of_the_newest_fit_has_noted(tmp_path: Path) -> None:
    note_beat(tmp_path, 1)
    os.utime(tmp_path / "fit-1.json", (1, 1))
    note_beat(tmp_path, 2, heartbeat.GpuUse(0, 61 << 30, 80 << 30, 97, rank=1))
    assert parse_notes(ask_here(tmp_path), "head") == RankAnswers(gpus=(USE,), steps=(4, -1, 3))


def test_a_job_without_measured_gpus_has_none() -> None:
    assert parse_notes("{}", "head") == RankAnswers()
    assert parse_notes('{"heartbeat": null}', "head") == RankAnswers()


@pytest.mark.parametrize(
    "output", ["", "[]", '{"heartbeat": {"gpus": [{"rank": "<img>"}]}}', '{"heartbeat": {"rank_steps": ["<b>"]}}']
)
def test_another_answer_is_an_error(output: str) -> None:
    with pytest.raises(ClientError, match="pod head did not tell"):
        parse_notes(output, "head")


def test_a_row_has_all_that_is_known_of_its_rank() -> None:
    answers = RankAnswers((RankStack(0, "w0", "at train.py:41", "..."), RankStack(1, "", "", "")), (USE,), (7, -1, 6))
    slow = [SlowRankStatus.model_validate({"rank": 2, "pod": "w1", "node": "n", "score": "0.68"})]
    assert [asdict(row) for row in build_rows(answers, slow)] == [
        {"rank": 0, "pod": "w0", "step": "7", "place": "at train.py:41", "pace": "", "gpu": "", "memory": ""},
        {
            "rank": 1,
            "pod": "",
            "step": "",
            "place": "does not respond",
            "pace": "",
            "gpu": "97%",
            "memory": "61.0 GiB of 80.0 GiB",
        },
        {"rank": 2, "pod": "w1", "step": "6", "place": "", "pace": "0.68", "gpu": "", "memory": ""},
    ]


def test_the_use_is_read_from_what_the_driver_writes() -> None:
    written = {"heartbeat": {"number": 1, "gpus": [asdict(heartbeat.GpuUse(0, 61 << 30, 80 << 30, 97, rank=1))]}}
    assert parse_notes(json.dumps(written), "head") == RankAnswers(gpus=(USE,))
