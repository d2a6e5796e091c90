"""The two readers of the ranks' output: the head's standard streams and a worker pod's tail."""

from __future__ import annotations

import io
import threading
from pathlib import Path

from railhead.driver.logs.log_tail import LogTail
from railhead.driver.logs.output import Ranks, RankStream

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


def test_a_line_of_a_rank_is_seen_at_once(tmp_path: Path) -> None:
    """A pod's output is a pipe, which Python and Ray leave buffered."""
    file = tmp_path / "head.log"
    with open(file, "w") as shown:
        RankStream(shown, Ranks()).write(f"{PREFIX} epoch 1\n")
        assert file.read_text() == f"{PREFIX} epoch 1\n"


def test_lines_of_two_threads_stay_apart() -> None:
    """print() writes a line and its end one after the other, and Ray prints the ranks' lines in a thread of its own."""
    shown = io.StringIO()
    stream = RankStream(shown, Ranks())
    stream.write("railhead: state")
    ray = threading.Thread(target=stream.write, args=(f"{PREFIX} epoch 1\n",))
    ray.start()
    ray.join()
    stream.write("\n")
    assert shown.getvalue().splitlines() == [f"{PREFIX} epoch 1", "railhead: state"]


def test_tail_shows_the_ranks_of_this_node_only(tmp_path: Path) -> None:
    logs = tmp_path / "session_2026-01-01" / "logs"
    logs.mkdir(parents=True)
    out, err = io.StringIO(), io.StringIO()
    tail = LogTail(tmp_path, out=out, err=err)
    rank = logs / "worker-a-01-7.out"
    rank.write_text(":job_id:01\n:actor_name:RayTrainWorker\nfirst\n:railhead-mark:begin:2:ab-7:out:\nepoch 0\nepo")
    (logs / "worker-b-01-8.out").write_text(":job_id:01\n:actor_name:SynchronizationActor\nnot shown\n")
    (logs / "worker-a-01-7.err").write_text(":actor_name:RayTrainWorker\nwarning\n")
    (logs / "raylet.out").write_text("not shown\n")
    tail.poll()
    tail.poll()
    assert out.getvalue() == "first\n(rank 2) epoch 0\n"
    with open(rank, "a") as file:
        file.write("ch 1\n:railhead-mark:end:2:ab-7:out:\n")
    tail.poll()
    assert out.getvalue() == "first\n(rank 2) epoch 0\n(rank 2) epoch 1\n"
    assert err.getvalue() == "warning\n"
