"""No rank ends unnoticed, with a real Ray: a run succeeds only when the function returned on every rank.

Each start of the worker group plays the next case, so that one cluster shows them all.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from railhead.contract.failure import SUCCEEDED_CODE
from tests.ray.pods import Pods, make_job

CODE = '''
import os, pathlib, sys, tempfile, time
import ray, ray.train


def park():
    """A rank that waits for another that has ended."""
    time.sleep(600)


class Stuck(Exception):
    def __reduce__(self):
        raise KeyboardInterrupt("no pickle")


def close_streams():
    sys.stdout.close()
    sys.stderr.close()


def surrogate():
    raise ValueError("\\udcff bad")


def closed():
    close_streams()
    raise ValueError("behind closed streams")


def no_pickle():
    raise Stuck("not to be sent")


def exit_process():
    os._exit(0)


def exit_actor():
    ray.actor.exit_actor()


def unknown_argument():
    """The arguments of the process are Ray's own."""
    import argparse
    argparse.ArgumentParser(prog="user.py").parse_args()


def handler():
    import logging

    class Raising(logging.Handler):
        def emit(self, record):
            raise SystemExit

    for name in ("", "ray", "ray.train"):
        logging.getLogger(name).addHandler(Raising())
    raise ValueError("past a handler that raises")


def lost_upload():
    """The error occurs in a thread of Ray Train."""
    def upload(checkpoint, name):
        close_streams()
        raise OSError(28, "No space left on device")

    with tempfile.TemporaryDirectory() as folder:
        ray.train.report(
            {},
            checkpoint=ray.train.Checkpoint.from_directory(folder),
            checkpoint_upload_mode=ray.train.CheckpointUploadMode.ASYNC,
            checkpoint_upload_fn=upload,
        )
        park()


# Lost in Ray's own thread, where the wrapper of the function has no effect.
def thread_is_ended():
    def end(*_):
        raise SystemExit

    import ray.train.v2._internal.execution.worker_group.thread_runner as runner
    runner.construct_user_exception_with_traceback = end
    raise ValueError("lost by Ray")


def wait_for(path):
    while not path.exists():
        time.sleep(0.05)


def train_func(config):
    folder = pathlib.Path(config["folder"])
    rank = ray.train.get_context().get_world_rank()
    turn = len(list(folder.glob("played-*")))
    if turn >= len(config["plan"]):
        return
    case, other = (globals()[name] if name else None for name in config["plan"][turn])
    (folder / f"here-{turn}-{rank}").touch()
    wait_for(folder / f"here-{turn}-{1 - rank}")
    print(f"rank {rank} plays {case.__name__}", flush=True)
    if rank == 1:
        (folder / f"played-{turn}").touch()
        case()
    wait_for(folder / f"played-{turn}")
    if other is not None:
        other()
'''


@dataclass(frozen=True)
class Case:
    """What rank 1 does, what the other rank does meanwhile ("": it returns), and the log's line about it."""

    name: str
    other: str
    line: str


CASES = [
    Case(
        "surrogate",
        "surrogate",
        r"Application: rank [01]: ValueError: \\udcff bad \(user.py, line \d+, in surrogate\)",
    ),
    Case("closed", "park", r"Application: rank 1: ValueError: behind closed streams \(user.py"),
    Case("exit_process", "", r"Application: rank 1: .*its process died; Ray says: Worker"),
    Case("exit_actor", "park", r"Application: rank 1: .*(User requested to exit the actor|exit_actor\(\) is called)"),
    # An upload function of the user's is not the run's storage, whatever its errors are called.
    Case("lost_upload", "lost_upload", r"Application: rank [01]: OSError: \[Errno 28\] No space left on device"),
    Case("thread_is_ended", "", r"Application: rank 1: ValueError: lost by Ray \(user.py"),
    Case("surrogate", "", r"Application: rank 1: ValueError: \\udcff bad \(user.py, line \d+, in surrogate\)$"),
    Case("no_pickle", "park", r"Application: rank 1: user.Stuck: not to be sent \(user.py"),
    Case(
        "unknown_argument",
        "park",
        r'Application: rank 1: SystemExit: 2, after "usage: .*: error: unrecognized arguments: --.*" on standard error '
        r"\(user.py, line \d+, in unknown_argument\)$",
    ),
    Case("handler", "", r"Application: rank 1: ValueError: past a handler that raises \(user.py"),
    Case("thread_is_ended", "park", r"Application: rank 1: ValueError: lost by Ray \(user.py"),
]


@pytest.mark.slow  # tests/unit/driver/rank/test_run_rank.py and train_controller/test_polls.py have each end of a rank
def test_no_end_of_a_rank_goes_unnoticed(tmp_path: Path) -> None:
    (tmp_path / "turns").mkdir()
    config = {"folder": str(tmp_path / "turns"), "plan": [[case.name, case.other] for case in CASES]}
    job = make_job(framework="Python", train_loop_config=config, max_failures=len(CASES))
    with Pods(tmp_path, job, source={"user.py": CODE}) as pods:
        pods.start()
        assert pods.wait_ended(timeout=580) == SUCCEEDED_CODE, pods.read_log()
        log = pods.read_log()
    restarts = re.findall(r"railhead +[\d.]+s  (\w+: .*); restarting the worker group", log)
    # A start of a group may take too long for Ray on a busy machine.
    found = [why for why in restarts if not why.startswith("Infrastructure: ") or "run.storagePath" in why]
    for line, case in zip(found, CASES, strict=True):
        assert re.match(case.line, line), (line, case)
