"""The commands of docs/how-to/ten-tasks.md, in order, against a real API server, and what the page says they print."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime
from pathlib import Path

import pytest

from railhead.api.base import Object
from railhead.contract.text import format_time
from tests.api.conftest import RUNS_COMMANDS, Run
from tests.api.server import ApiServer
from tests.api.test_client import FAILED, SUSPENDED, read, report
from tests.api.trainjobs import PATH
from tests.local.test_quick_starts import is_as_described, read_steps

pytestmark = RUNS_COMMANDS
PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "ten-tasks.md"


def make_condition(type_: str, reason: str, message: str = "") -> Object:
    now = format_time(datetime.now(UTC))
    return {"type": type_, "status": "True", "reason": reason, "message": message, "lastTransitionTime": now}


NO_NODE = "0/8 nodes are available: 8 Insufficient nvidia.com/gpu."
FAILURE = {"class": "OutOfMemory", "reason": "OOMKilled", "message": "The container exceeded 64Gi.", "attempt": 1}
# What the operator writes before the command of each number.
STATUS: dict[int, Object] = {
    2: {"phase": "Pending", "attempt": 1, "conditions": [make_condition("Reconciling", "Unschedulable", NO_NODE)]},
    3: {
        "phase": "Running",
        "conditions": [make_condition("Running", "Training")],
        "workers": {"desired": 4, "ready": 4, "joined": 4},
        "progress": {"percentComplete": 42, "remaining": "3h20m", "metrics": {"loss": "0.3125"}},
    },
    5: {"checkpoint": {"uri": "s3://bucket/runs/digits-1a2b3c4d/checkpoint_4", "index": 4}},
    7: {"phase": "Suspended", "conditions": SUSPENDED},
    8: {"phase": "Failed", "conditions": FAILED, "failure": FAILURE},
}


def test_each_command_of_the_page_prints_what_the_page_says(
    run: Run,
    api_server: ApiServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = PAGE.read_text()
    monkeypatch.chdir(tmp_path)
    Path("digits.yaml").write_text(page.partition("```yaml\n")[2].partition("```")[0])
    steps = read_steps(page)
    assert len(steps) == 10
    for number, step in enumerate(steps, 1):
        if number in STATUS:
            report(api_server, "digits", **STATUS[number])
        program, *arguments = shlex.split(step.command)
        assert program == "railhead"
        assert run(*arguments) == 0, capsys.readouterr().err
        printed = capsys.readouterr().out
        assert is_as_described(printed, step.output or ""), f"{step.command}{printed}"
        if number == 9:
            new = read(api_server, "digits-r2")["spec"]
            assert new["resumeFrom"]["checkpoint"] == "s3://bucket/runs/digits-1a2b3c4d/checkpoint_4"
            assert new["scaling"]["resourcesPerWorker"]["memory"] == "96Gi"
    assert api_server.list(PATH) == []
