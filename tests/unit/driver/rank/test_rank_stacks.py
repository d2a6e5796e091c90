"""The stacks of a rank."""

from __future__ import annotations

import pytest

from railhead.driver.rank import rank_stacks
from railhead.driver.rank.run_rank import RankEnd
from railhead.driver.rank.steps import RankProgress


@pytest.mark.parametrize(
    ("stage", "reports", "expected"),
    [
        ("started", (3, 1), "at m.py:7 in train, inside ray, in call 3 of ray.train.report"),
        ("started", (3, 0), "at m.py:7 in train, inside ray"),
        ("returned", (2, 0), "no longer in train_func, which has returned after 2 calls of ray.train.report"),
    ],
)
def test_a_rank_says_for_which_report_it_waits(
    monkeypatch: pytest.MonkeyPatch, stage: str, reports: tuple[int, int], expected: str
) -> None:
    monkeypatch.setattr(rank_stacks, "read_end", lambda: RankEnd(stage))
    monkeypatch.setattr(rank_stacks, "read_beat", lambda: RankProgress(reports=reports[0], open_reports=reports[1]))
    assert rank_stacks._add_report("at m.py:7 in train, inside ray") == expected
    assert rank_stacks._add_report("").startswith(("outside train_func", "no longer in train_func"))
