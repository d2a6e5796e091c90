"""The ranks' lines in the head's standard streams, and what of them leaves a worker pod."""

from __future__ import annotations

import io
import threading
from pathlib import Path

import pytest

from railhead.driver.logs.output import Ranks, RankStream
from railhead.driver.ray.log_monitor import RankFilter

PREFIX = "(RayTrainWorker pid=7, ip=10.0.0.3)"


def test_head_names_ranks_and_hides_marks() -> None:
    shown = io.StringIO()
    ranks = Ranks()
    stream = RankStream(shown, ranks)
    stream.write(f"{PREFIX} before\n{PREFIX} :railhead-mark:begin:4:ab-7:out:\n{PREFIX} epoch")
    stream.write(" 1\n(TrainController pid=9) hello\n(PlacementGroupCleaner pid=1) Failed to query\nmine\n")
    assert not ranks.wait_until_ended(["ab-7"], timeout=0)
    stream.write(f"{PREFIX} half:railhead-mark:end:4:ab-7:out:\n")
    stream.write(f"{PREFIX} :railhead-mark:end:4:ab-7:err:\n")
    assert ranks.wait_until_ended(["ab-7"], timeout=0)
    assert not ranks.wait_until_ended(["ab-7", "ab-8"], timeout=0)
    assert shown.getvalue().splitlines() == [
        f"{PREFIX} before",
        "(rank 4) epoch 1",
        "(TrainController pid=9) hello",
        "mine",
        "(rank 4) half",
    ]


@pytest.mark.parametrize(("forward", "wanted"), [("All", ["a", "b"]), ("Rank0", ["a"]), ("None", [])])
def test_the_end_waits_only_for_ranks_whose_lines_come(forward: str, wanted: list[str]) -> None:
    shown = io.StringIO()
    ranks = Ranks(forward)
    stream = RankStream(shown, ranks)
    for rank, process in enumerate(wanted):
        assert not ranks.wait_until_ended(["a", "b"], timeout=0)
        for name in ("out", "err"):
            stream.write(f"{PREFIX} :railhead-mark:end:{rank}:{process}:{name}:\n")
    assert ranks.wait_until_ended(["a", "b"], timeout=0)


def test_only_the_lines_of_rank_0_leave_the_pod() -> None:
    ranks = RankFilter()
    assert ranks.select(7, ["import of torch"]) == []
    assert ranks.select(8, [":railhead-mark:begin:1:ab-8:out:", "of rank 1"]) == []
    begin, end = ":railhead-mark:begin:0:ab-7:out:", ":railhead-mark:end:0:ab-7:out:"
    assert ranks.select(7, ["before", begin, "of rank 0"]) == [begin, "of rank 0"]
    assert ranks.select(7, ["more", end]) == ["more", end]
    assert ranks.select(8, ["more"]) == ranks.select("raylet", ["a word of Ray's"]) == []
    assert ranks.select(7, ["a", ":railhead-mark:begin:3:ab-7:out:", "b"]) == ["a"], "another process with its id"


def test_writes_a_line_of_a_rank_at_once(tmp_path: Path) -> None:
    """A pod's output is a pipe, which Python and Ray leave buffered."""
    file = tmp_path / "head.log"
    with open(file, "w") as shown:
        RankStream(shown, Ranks()).write(f"{PREFIX} epoch 1\n")
        assert file.read_text() == f"{PREFIX} epoch 1\n"


def test_lines_of_two_threads_stay_apart() -> None:
    """print() writes a line and its end one after the other, and Ray prints the ranks' lines in its own thread."""
    shown = io.StringIO()
    stream = RankStream(shown, Ranks())
    stream.write("railhead: state")
    ray = threading.Thread(target=stream.write, args=(f"{PREFIX} epoch 1\n",))
    ray.start()
    ray.join()
    stream.write("\n")
    assert shown.getvalue().splitlines() == [f"{PREFIX} epoch 1", "railhead: state"]
