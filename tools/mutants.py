"""Seeded defects in planner and executor: each must be caught by a test. `make mutants` runs them all.

Each defect is put into a copy of the tree, and the tests that are to catch it run there.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[1]
PACKAGE = Path("operator", "railhead")
CRASHES = "tests/model/test_crash_points.py"
SCHEDULES = "tests/model/test_schedules.py"
STALE = "tests/unit/planning/test_stale_views.py"
SUSPEND = "tests/unit/planning/test_suspend.py"
DEADLINES = "tests/unit/planning/test_deadlines.py"
CLEAN_UP = "tests/unit/planning/test_clean_up.py"
TIMEOUT = 300.0  # seconds; without a defect the tests take a fraction of it


@dataclass(frozen=True)
class Mutant:
    """One defect: what it is, where, and the tests of which one must fail."""

    what: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


MUTANTS = (
    Mutant(
        "a delete without its uid",
        "controller/executor.py",
        "uid=delete.uid, ",
        "",
        ("tests/unit/controller/test_executor.py",),
    ),
    Mutant(
        "pods are made before the status says so",
        "controller/executor.py",
        "        if plan.status is not None:\n            if plan.status.pods",
        "        await self._all(self._make(key, uid, c) for c in plan.creates)\n"
        "        if plan.status is not None:\n            if plan.status.pods",
        (SCHEDULES,),
    ),
    Mutant(
        "a status write without its tests",
        "controller/executor.py",
        "for path, value in write.tests.items()]\n",
        "for path, value in {}.items()]\n",
        (SCHEDULES, "tests/unit/controller/test_executor.py"),
    ),
    Mutant(
        "a loss without a trace is believed",
        "controller/executor.py",
        "            if plan.status.pods is not None:\n",
        "            if False:\n",
        ("tests/unit/controller/test_executor.py",),
    ),
    Mutant(
        "the next attempt begins beside a head that was not seen yet",
        "planning/attempt.py",
        "look_first(observed, plan.status)",
        "plan.status",
        (STALE,),
    ),
    Mutant(
        "the answer to a create is not learnt",
        "controller/executor.py",
        '        if create.kind == "Pod":\n            self.learn.pod(answer)\n',
        "",
        ("tests/unit/controller/test_executor.py",),
    ),
    Mutant(
        "a 404 on a status write means that the job is gone",
        "controller/executor.py",
        "        except (Gone, Conflict, Denied) as error:\n",
        "        except Gone:\n            self.learn.job_gone(key, uid)\n"
        "            raise LostCompare('gone') from None\n"
        "        except (Conflict, Denied) as error:\n",
        (CRASHES, "tests/unit/controller/test_executor.py"),
    ),
    Mutant(
        "the decision to lose an attempt counts, not the begin of the next",
        "planning/loss.py",
        '        phase="Restarting",\n        **told,',
        '        phase="Restarting",\n        restarts={"application": 1, "infrastructure": 1, "withoutProgress": 1},\n'
        "        **told,",
        (CRASHES,),
    ),
    Mutant(
        "the next attempt does not wait for the pods of the last",
        "planning/next_attempt.py",
        "    if remains:\n",
        "    if False:\n",
        (SCHEDULES, "tests/unit/planning"),
    ),
    Mutant(
        "counters do not rise with the attempt",
        "planning/next_attempt.py",
        ", restarts=restarts)",
        ")",
        (CRASHES,),
    ),
    Mutant(
        "a replacement without a new round",
        "planning/replacement.py",
        "    round_ = observed.status.round + 1\n",
        "    round_ = observed.status.round\n",
        (CRASHES,),
    ),
    Mutant(
        "ended pods of earlier attempts stay",
        "planning/hands_off.py",
        "(p for p in observed.pods if p.attempt < observed.attempt)",
        "observed.strays",
        (CRASHES,),
    ),
    Mutant(
        "a finished job keeps what is left of it",
        "planning/hands_off.py",
        "        deletes=delete_all(p for p in observed.pods if p not in kept),\n",
        "        deletes=(),\n",
        ("tests/unit/planning/test_life.py", CRASHES),
    ),
    Mutant(
        "exit code 0 is success, whatever the driver said",
        "planning/pod_view.py",
        "return self.exit_code == 0 and outcome is not None and outcome.outcome == SUCCEEDED",
        "return self.exit_code == 0",
        ("tests/unit/planning/test_life.py",),
    ),
    Mutant(
        "missing pods are made without a look at the status",
        "planning/missing.py",
        "        status=build_guard(observed),\n",
        "",
        (STALE,),
    ),
    Mutant(
        "two pods of one slot may stay",
        "planning/hands_off.py",
        ", *observed.doubles]",
        "]",
        (STALE,),
    ),
    Mutant(
        "a suspended job's workers go with the head",
        "planning/suspend.py",
        "            return Plan(deletes=delete_all([head]))\n",
        "            return Plan(deletes=delete_all(observed.pods))\n",
        (SUSPEND,),
    ),
    Mutant(
        "an old spec may suspend",
        "planning/suspend.py",
        '"/metadata/generation": observed.generation',
        "",
        (SUSPEND,),
    ),
    Mutant(
        "a drained head's workers go at once",
        "planning/loss.py",
        "    if head is not None and head.may_still_end(observed.now):\n",
        "    if False:\n",
        (SUSPEND,),
    ),
    Mutant(
        "suspended time counts",
        "planning/deadlines.py",
        "limit + max(observed.status.suspended_seconds, 0)",
        "limit",
        (DEADLINES,),
    ),
    Mutant(
        "a limit is not looked at again by itself",
        "planning/planner.py",
        "    due = next_due(observed)\n",
        "    due = None\n",
        (DEADLINES,),
    ),
    Mutant(
        "a finished job's children go before their time",
        "planning/clean_up.py",
        "    if due is None or due > observed.now:\n",
        "    if due is None:\n",
        (CLEAN_UP,),
    ),
    Mutant(
        "a finished job is cleaned up again and again",
        "planning/clean_up.py",
        "    if observed.status.clean_up_time:\n",
        "    if False:\n",
        (CLEAN_UP,),
    ),
    Mutant(
        "time in which the driver was not run counts as silence of training",
        "driver/silence.py",
        "min(now - self._looked_at, LONGEST_LOOK)",
        "now - self._looked_at",
        ("tests/unit/driver/test_silence.py",),
    ),
    Mutant(
        "the wait for validations after training counts as silence",
        "driver/reporting/progress.py",
        ' and name != "SHUTTING_DOWN"',
        "",
        ("tests/unit/driver/test_progress.py",),
    ),
    Mutant(
        "the operator's own clock is asked",
        "kube/clock.py",
        "        if self._zero is None:\n            return self._wall()\n",
        "        return self._wall()\n",
        ("tests/unit/kube/test_clock.py", SCHEDULES),
    ),
    Mutant(
        "nobody waits for a pod that was told to go",
        "planning/observed.py",
        "if not p.is_over and not p.is_out_of_reach(self.now))",
        "if not p.is_over and not p.is_deleting)",
        ("tests/unit/planning/test_properties.py", CRASHES),
    ),
    Mutant(
        "what the driver has seen is not known to have been there",
        "planning/observed.py",
        "self.joined if is_first_group else 0",
        "0",
        ("tests/unit/planning/test_stale_views.py",),
    ),
    Mutant(
        "a pod on a dead node is waited for without end",
        "planning/pod_view.py",
        "return at is not None and now >= at",
        "return False",
        ("tests/unit/planning/test_life.py",),
    ),
    Mutant(
        "each commit is an event",
        "planning/announce.py",
        "at > observed.now:",
        "at > at:",
        ("tests/unit/planning/test_announce.py",),
    ),
    Mutant(
        "half an attempt is held for ever for a pod that is refused",
        "planning/planner.py",
        "    decide_release,\n",
        "",
        ("tests/unit/planning/test_release.py",),
    ),
    Mutant(
        "what was refused is made again in each pass",
        "planning/hold_back.py",
        "    if at <= observed.now:\n        return decided\n",
        "    return decided\n",
        ("tests/unit/planning/test_refused.py",),
    ),
)


def find_failure(tests: Iterable[str], folder: Path, *, timeout: float, options: Iterable[str] = ()) -> str:
    """Why they do not pass, or an empty string. Raises ValueError when pytest could not run them."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--tb=short", *options, *tests]
    environment = {**os.environ, "PYTHONPATH": str(folder / "operator"), "RAILHEAD_SCHEDULES": "60"}
    pipes: dict[str, Any] = {"capture_output": True, "text": True}
    try:
        done = subprocess.run(command, cwd=folder, env=environment, check=False, timeout=timeout, **pipes)
    except subprocess.TimeoutExpired:  # some defects make a job begin again for ever
        return f"no end within {timeout:.0f} s"
    if done.returncode not in (0, 1):
        raise ValueError(f"pytest ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout if done.returncode else ""


def is_caught(mutant: Mutant, folder: Path) -> bool:
    """Raises ValueError when the defect has no place any more."""
    file = folder / PACKAGE / mutant.file
    text = file.read_text()
    if text.count(mutant.old) != 1:
        raise ValueError(f"{mutant.what}: {mutant.file} has its text {text.count(mutant.old)} times; adapt the mutant")
    file.write_text(text.replace(mutant.old, mutant.new))
    try:
        return bool(find_failure(mutant.tests, folder, timeout=TIMEOUT))
    finally:
        file.write_text(text)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="a part of the defect's name")
    options = parser.parse_args(arguments)
    chosen = [mutant for mutant in MUTANTS if options.only in mutant.what]
    survivors = []
    with tempfile.TemporaryDirectory(prefix="railhead-mutants-") as name:
        folder = Path(name)
        for part in ("operator", "tests", "tools", "crds", "manifests", "charts", "pyproject.toml"):
            source = PROJECT / part
            copy = shutil.copytree if source.is_dir() else shutil.copy
            copy(source, folder / part)
        tests = sorted({test for mutant in chosen for test in mutant.tests})
        failure = find_failure(tests, folder, timeout=4 * TIMEOUT, options=("-n", "auto"))
        if failure:
            print(f"{failure}\nthe tests fail without any defect; mend that first", file=sys.stderr)
            return 1
        for mutant in chosen:
            began = time.monotonic()
            caught = is_caught(mutant, folder)
            print(
                f"{'caught  ' if caught else 'SURVIVED'} {time.monotonic() - began:6.1f} s  {mutant.what}", flush=True
            )
            survivors += [] if caught else [mutant.what]
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} seeded defects are caught")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
