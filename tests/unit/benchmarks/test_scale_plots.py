"""From figures to plots."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from benchmarks.scale import bare, cluster, fairness, present, reporting
from benchmarks.scale.plots import PANELS, Panel, draw, read_lines
from benchmarks.scale.record import Machine, Record, Turn, read_record, write_record

TURNS: list[Turn] = [
    {"name": "a", "jobs": 100, "cpu_seconds": 1.0, "pods": 400, "start": {"ready": 2}},
    {"name": "a", "jobs": 10, "cpu_seconds": 0.3, "pods": 40, "start": {"ready": 1}},
    {"name": "a", "jobs": 10, "cpu_seconds": 0.1, "pods": 40, "start": {"ready": 1}},
    {"name": "floor", "jobs": 10, "cpu_seconds": 0.1, "pods": 40},
]


def test_lines_join_the_medians_of_each_size() -> None:
    lines = read_lines(TURNS, Panel("", "cpu_seconds", 1000, per="pods"))
    assert {name: [(x, round(y, 3)) for x, y in points] for name, points in lines.items()} == {
        "a": [(10, 5.0), (100, 2.5)],
        "floor": [(10, 2.5)],
    }


def test_a_turn_without_a_figure_is_left_out() -> None:
    assert read_lines(TURNS, Panel("", "start.ready")) == {"a": [(10, 1), (100, 2)]}


FIGURES = {
    "bare": bare.Figures,
    "present": present.Figures,
    "reporting": reporting.Figures,
    "fairness": fairness.Figures,
    "cluster": cluster.Figures,
}


@pytest.mark.parametrize("mode", PANELS)
def test_the_panels_of_a_mode_are_its_figures(mode: str) -> None:
    known = {field.name for field in dataclasses.fields(FIGURES[mode])}
    assert {part.partition(".")[0] for panel in PANELS[mode] for part in (panel.field, panel.per or "jobs")} <= known


def test_a_mode_is_drawn_as_png_and_svg(tmp_path: Path) -> None:
    turns: list[Turn] = [{"name": "a", "jobs": 10, "start": {"reconciled": 2.0}, "rss_peak": 90}]
    files = draw([Record("present", "2 processors", turns)], tmp_path / "plots")
    assert [path.name for path in files] == ["present.png", "present.svg"]
    assert files[0].read_bytes().startswith(b"\x89PNG")
    assert "<svg" in files[1].read_text()


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    figures = reporting.Figures("a", 200, 60.0, 400.0, 20.0, 200, 0, 0.5, 1.5, 2.0, 0.3, 90.0, {202: 9})
    path = tmp_path / "build" / "reporting.json"
    write_record(path, mode="reporting", machine=Machine.read(), turns=[figures])
    record = read_record(path)
    assert record.mode == "reporting" and "processors" in record.machine
    assert [turn["lag_p99"] for turn in record.turns] == [1.5]
