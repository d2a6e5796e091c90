"""The example of the page "How often should I save?" trains, saves and continues, without a change."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from railhead.training import _checkpoints, _save_pace, dcp
from tests.unit.training.ranks import Rank, run_ranks

PAGE = Path(__file__).resolve().parents[3] / "docs/how-to/how-often-to-save.md"


def run_example(rank: int, folder: str, checkpoint: str, steps: int) -> tuple[list[tuple[dict[str, Any], str]], int]:
    """Returns what was reported, and the step that training began with."""
    setattr(_checkpoints, "LOOK_SECONDS", 0.0)  # noqa: B010
    setattr(_save_pace, "LEAST_SECONDS", 0.0)  # noqa: B010
    me = Rank(folder, checkpoint=checkpoint)
    found = re.search(r"^```python\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
    assert found
    names: dict[str, Any] = {}
    exec(compile(found[1], str(PAGE), "exec"), names)
    began = [0]
    load = dcp.load

    def note_start(state: dict[str, Any]) -> bool:
        is_found = load(state)
        began[0] = state["training"].done
        return is_found

    setattr(dcp, "load", note_start)  # noqa: B010
    names["train_func"]({"steps": steps})
    return me.finish_uploads(), began[0]


def test_the_example_saves_while_it_trains_and_at_its_end_and_continues_from_there(tmp_path: Path) -> None:
    (reports, began), _ = run_ranks(2, run_example, tmp_path, str(tmp_path), "", 20)
    steps = [metrics["step"] for metrics, _ in reports]
    assert began == 0 and steps[-1] == 20 and len(steps) > 1 and steps == sorted(steps)
    assert all("loss" in metrics for metrics, _ in reports[:-1])
    (again, continued), _ = run_ranks(2, run_example, tmp_path, str(tmp_path), reports[-1][1], 22)
    assert continued == 20 and again[-1][0]["step"] == 22
