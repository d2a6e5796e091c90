"""How the ways of a benchmark take turns, and its verdict."""

from __future__ import annotations

import pytest
from benchmarks.turns import alternate, describe


def test_each_way_runs_once_a_round_and_none_is_always_first() -> None:
    assert list(alternate(["TrainJob", "by hand"], 2)) == [
        (0, "by hand"),
        (0, "TrainJob"),
        (1, "TrainJob"),
        (1, "by hand"),
    ]


@pytest.mark.parametrize(("mine", "code"), [(2.0, 0), (2.2, 0), (2.3, 1)])
def test_the_verdict_is_about_the_ratio_of_the_medians(
    mine: float, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    times = {"TrainJob": [9.0, mine, 0.1], "by hand": [2.0]}
    assert describe("to the end", times, of="TrainJob", beside="by hand", bound=1.1) == code
    assert f"TrainJob {mine:.2f} s, by hand 2.00 s, ratio {mine / 2:.3f}; the bound is 1.1" in capsys.readouterr().out
