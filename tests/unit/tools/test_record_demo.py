"""The recording of the demo: what it shows, when each line appears, and that the committed one is of today's demo."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

from tools.demo import EPOCHS, VICTIM
from tools.record_demo import COLUMNS, PLACE, SPEED, Line, choose, draw

SVG = "{http://www.w3.org/2000/svg}"


def read_lines(svg: str) -> list[str]:
    """Returns the text of each line of the drawn terminal."""
    lines: dict[str, str] = {}
    for element in ElementTree.fromstring(svg).iter(f"{SVG}text"):
        line = element.get("clip-path", "title")
        lines[line] = lines.get(line, "") + (element.text or "").replace("\xa0", " ")
    return [text.rstrip() for line, text in lines.items() if line != "title"]


def test_single_pods_folders_and_what_follows_the_proof_are_left_out() -> None:
    lines = [
        Line(1.0, "    1.0 s  pod digits-1-head Pending"),
        Line(2.0, "    2.0 s  checkpoint 0: /home/me/run-1/checkpoint_2026"),
        Line(3.0, "    3.0 s  .status.checkpoint.uri: /home/me/run-1/checkpoint_2026"),
        Line(4.0, "    4.0 s  proven: the job trained"),
        Line(4.1, "To explore further:"),
    ]
    assert choose(lines) == [Line(3.0, "    3.0 s  .status.checkpoint.uri: …/checkpoint_2026"), lines[3]]


def test_each_line_is_drawn_and_appears_at_its_time() -> None:
    lines = [Line(0.0, "    0.0 s  kubectl apply -f <file>"), Line(10.0, "   10.0 s  phase Running")]
    svg = draw(lines)
    assert read_lines(svg) == [line.text for line in lines]
    assert f'"url(#demo-line-1)"] {{ animation-delay: {10 / SPEED:.2f}s }}' in svg


def test_a_long_line_is_cut_and_the_next_one_keeps_its_time() -> None:
    first, second = read_lines(draw([Line(0.0, "x" * 2 * COLUMNS), Line(1.0, "    1.0 s  end")]))
    assert first == "x" * (COLUMNS - 1) + "…"
    assert second == "    1.0 s  end"


def test_nothing_is_loaded_from_the_network() -> None:
    assert "http" not in draw([Line(0.0, "x")]).replace("http://www.w3.org/2000/svg", "")


def test_the_committed_recording_is_of_this_demo() -> None:
    text = "\n".join(read_lines(PLACE.read_text()))
    for shown in (f"epochs: {EPOCHS}/", f"kubectl delete pods -l {VICTIM}", "training resumed after epoch", "proven: "):
        assert shown in text
