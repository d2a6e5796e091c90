"""Curves as a picture."""

from __future__ import annotations

import math
from pathlib import Path
from xml.etree import ElementTree

import pytest

from railhead.client.exit_codes import ClientError, ExitCode
from railhead.client.run.curves import Curve
from railhead.client.run.plot import MOST_METRICS, check_plot, write_plot

CURVES = [
    Curve("digits", "loss", (3.0, math.nan, math.inf, 1.0), (1, 2, 3, 10**400)),
    Curve("digits-r2", "loss", (2.0,), (5,)),
    Curve("digits", "$\\broken{ \x1b<script>", (-1e308, 1e308), (1, 2)),
]


def test_a_picture_has_a_panel_for_each_metric_and_a_line_for_each_job(tmp_path: Path) -> None:
    file = tmp_path / "curves.svg"
    write_plot(CURVES, file)
    groups = [each.get("id", "") for each in ElementTree.parse(file).iter()]
    assert [each for each in groups if each.startswith("axes_")] == ["axes_1", "axes_2"]
    assert len([each for each in groups if each.startswith("legend_")]) == 2
    assert "<script>" not in file.read_text() and "\x1b" not in file.read_text()


def test_a_name_in_png_is_a_png(tmp_path: Path) -> None:
    write_plot(CURVES[:1], tmp_path / "curves.png")
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("count", [0, MOST_METRICS + 1])
def test_too_few_or_too_many_metrics_are_refused(count: int, tmp_path: Path) -> None:
    with pytest.raises(
        ClientError, match=rf"{count} metrics have numbers; a picture has 1 to 12, chosen by --metric"
    ) as error:
        write_plot([Curve("digits", f"m{n}", (1.0,), (1,)) for n in range(count)], tmp_path / "a.svg")
    assert error.value.code == ExitCode.USAGE


def test_what_cannot_be_written_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ClientError, match=r"the name ends with \.png or \.svg"):
        check_plot(Path("curves.gif"))
    with pytest.raises(ClientError, match=r"cannot write .*No such file"):
        write_plot(CURVES, tmp_path / "nowhere" / "a.svg")
    check_plot(tmp_path / "a.svg")
    monkeypatch.setattr("railhead.client.run.plot.find_spec", lambda name: None)
    with pytest.raises(ClientError, match=r"pip install 'railhead-train\[plot\]'"):
        check_plot(tmp_path / "a.svg")


def read_labels(file: Path) -> str:
    """matplotlib writes each text of a picture in a comment, beside its glyphs."""
    return file.read_text()


def test_what_is_not_finite_is_marked_and_named_in_the_legend(tmp_path: Path) -> None:
    file = tmp_path / "curves.svg"
    values = (3.0, math.nan, math.nan, math.inf)
    write_plot([Curve("digits", "loss", values, (1, 2, 3, 4)), Curve("other", "loss", (1.0, 2.0), (1, 2))], file)
    assert "<!-- digits: NaN from step 2, 3 of 4 -->" in read_labels(file)
    assert "other: " not in read_labels(file)


@pytest.mark.parametrize(("value", "name"), [(math.nan, "NaN"), (math.inf, "Infinity"), (-math.inf, "-Infinity")])
def test_a_curve_without_any_number_is_a_row_of_marks(value: float, name: str, tmp_path: Path) -> None:
    file = tmp_path / "curves.svg"
    write_plot([Curve("digits", "loss", (value, value), (5, 6))], file)
    assert f"<!-- digits: {name} from step 5, 2 of 2 -->" in read_labels(file)
