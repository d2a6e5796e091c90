"""The tables of `make bench-scale`."""

from __future__ import annotations

from benchmarks.scale import bare, present
from benchmarks.scale.bare import Figures
from benchmarks.scale.present import Mix, Start
from benchmarks.scale.table import describe_medians

FLOOR = Figures("floor", jobs=10, pods=40, seconds=0.1, pods_per_second=400, cpu_seconds=0.02, server_cpu_seconds=0.1)


def turn(rate: float, p50: float | None) -> Figures:
    return Figures(
        "a",
        10,
        40,
        40 / rate,
        rate,
        0.2,
        0.01,
        80,
        90,
        95,
        pass_p50=p50,
        pass_p99=p50,
        requests={"POST pods": 4},
        server_cpu_seconds=0.3,
    )


def test_medians_of_several_figures() -> None:
    turns = [turn(100, 0.001), turn(200, 0.003), turn(120, 0.002)]
    assert describe_medians(turns, lambda t: [t.pods_per_second, t.rss_peak], digits=0) == "120, 95"
    assert describe_medians(turns, lambda t: [t.pass_p50], digits=1, factor=1000) == "2.0"


def test_a_figure_that_a_turn_lacks_is_a_dash() -> None:
    turns = [turn(100, 0.001), turn(200, None)]
    assert describe_medians(turns, lambda t: [t.pass_p50, t.pass_p99], digits=1) == "-"
    assert describe_medians(turns, lambda t: [t.pass_p50, t.rss_peak], digits=0) == "-, 95"


def test_an_operator_is_compared_with_the_floor_of_its_size() -> None:
    lines = bare.describe([turn(100, 0.002), FLOOR])
    assert lines[1].split() == [
        "a",
        "10",
        "100",
        "0.25",
        "0.2",
        "5.00",
        "7.50",
        "1.00",
        "2.0,",
        "2.0",
        "80,",
        "90,",
        "95",
    ]
    assert lines[2].split() == ["floor", "10", "400", "1.00", "0.0", "0.50", "2.50", "-", "-", "-"]
    assert lines[3] == "requests per job of a, 10 jobs: 4.0 (POST pods 4)"


def test_what_was_written_at_the_starts_is_listed() -> None:
    silent, busy = Start(1.0, 2.0, 0.5), Start(1.0, None, 0.5, {"PATCH trainjobs/status": 3})
    one = present.Figures("a", 10, Mix(1, 4, 5), silent, busy, 80, 80, 81, 82, 0.001, 1.5, 1.0, None, None)
    lines = present.describe([one])
    assert lines[1].split()[:6] == ["a", "10", "1.0,", "2.0,", "0.5", "-"]
    assert lines[2] == "writes of a at 2 starts with 10 jobs: PATCH trainjobs/status 3"
