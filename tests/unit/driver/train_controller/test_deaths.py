"""Why a rank's process died: the last output of its runtime, and the kernel's OOM counter of its pod."""

from __future__ import annotations

from pathlib import Path

import pytest

from railhead.driver.node.memory import read_memory
from railhead.driver.train_controller import deaths, failure
from railhead.driver.train_controller.deaths import Death, explain_death, explain_deaths, find_last_words, read_death
from railhead.driver.train_controller.failure import RankError, classify_failure
from railhead.driver.train_controller.group import Process

DIED = RankError(3, failure.DIED, "its worker process has died", pod="digits-w1-0")
BUS = "Fatal Python error: Bus error\n\nStack (most recent call first):\n  File user.py, line 3 in f\n"
WATCHDOG = (
    "terminate called after throwing an instance of 'c10::DistBackendError'\n"
    "  what():  [PG ID 0 PG GUID 0 Rank 3] Process group watchdog thread terminated with exception: "
    "[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7)\nFatal Python error: Aborted\n"
)


@pytest.mark.parametrize(
    ("death", "expected"),
    [
        (Death(find_last_words(BUS)), ("Hardware", "BusError", "Fatal Python error: Bus error")),
        (Death(find_last_words(WATCHDOG)), ("Hang", "CollectiveTimedOut", "Watchdog caught collective operation")),
        (Death(find_last_words("Fatal Python error: Aborted")), ("Application", "TrainingProcessDied", "Aborted")),
        (Death(), ("Application", "TrainingProcessDied", "rank 3: its worker process has died")),
        (
            Death(oom_kills=1, limit=16 * 2**30),
            (
                "OutOfMemory",
                "OutOfMemory",
                "memory limit of 16Gi of pod digits-w1-0; raise spec.scaling.resourcesPerWorker.memory, "
                "which can change while the job is suspended",
            ),
        ),
    ],
)
def test_a_death_is_classified_by_its_cause(death: Death, expected: tuple[str, str, str]) -> None:
    found = classify_failure(failure.FailureFacts(failure.WORKERS, (explain_death(DIED, death, before=0),)))
    assert (found.class_.value, found.reason) == expected[:2]
    assert expected[2] in found.message


def test_an_oom_kill_explains_one_death(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deaths, "_seen", {})
    monkeypatch.setattr(deaths, "find_deaths", lambda processes: dict.fromkeys(processes, Death(oom_kills=1)))
    processes = {0: Process("a", 1), 3: Process("b", 2)}
    raised = RankError(0, failure.RAISED, "ValueError: no")
    kinds = [each.kind for each in explain_deaths((raised, DIED), processes)]
    assert kinds == [failure.RAISED, failure.KILLED_FOR_MEMORY]
    assert [each.kind for each in explain_deaths((DIED,), processes)] == [failure.DIED], "not killed again"


def test_reads_the_end_of_a_ranks_stderr(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAILHEAD_TEMP", str(tmp_path))
    logs = tmp_path / "session_2026-11-22" / "logs"
    logs.mkdir(parents=True)
    (logs / "worker-0a-01000000-71.err").write_text("x" * 100_000 + "\n" + BUS)
    assert read_death(71).words == "Fatal Python error: Bus error"
    assert read_death(72).words == ""


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"memory.events": "low 0\noom 2\noom_kill 2\noom_group_kill 1\n", "memory.max": "1024\n"}, (2, 1024)),
        ({"memory.events": "oom_kill 0\n", "memory.max": "max\n"}, (0, 0)),
        (
            {"memory/memory.oom_control": "under_oom 0\noom_kill 3\n", "memory/memory.limit_in_bytes": f"{2**63}\n"},
            (3, 0),
        ),
        ({}, (0, 0)),
    ],
)
def test_reads_both_cgroup_versions(tmp_path: Path, files: dict[str, str], expected: tuple[int, int]) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert read_memory(tmp_path) == expected
