"""Times as users write them, and what the commands say of jobs that have finished."""

from __future__ import annotations

import argparse
import io
from dataclasses import dataclass, field
from typing import Any

import pytest

from railhead.cli import change
from railhead.cli.output import Console
from railhead.cli.parser import build_parser, duration
from railhead.client.exit_codes import ClientError, ExitCode
from railhead.json_object import Object
from tests.unit.client.jobs import make_condition, make_failed, make_job


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("90s", 90), ("20m", 1200), ("2h", 7200), ("1d", 86400)])
def test_a_time_has_a_unit(text: str, seconds: float) -> None:
    assert duration(text) == seconds


@pytest.mark.parametrize("text", ["", "m", "-1s", "1.5h", "1w"])
def test_another_text_is_no_time(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="use for example 90s"):
        duration(text)


@dataclass
class OneJob:
    """What the commands use of a cluster."""

    job: Object
    written: list[Object] = field(default_factory=list)

    async def get_job(self, name: str) -> Object:
        return self.job

    async def change(self, name: str, patch: Object) -> Object:
        self.written.append(patch)
        return self.job

    async def create_job(self, job: Object) -> Object:
        self.written.append(job)
        return job


@pytest.mark.parametrize("command", ["suspend", "resume"])
async def test_a_finished_job_is_neither_suspended_nor_resumed(command: str) -> None:
    cluster: Any = OneJob(make_failed("Hang", "NoSteps"))
    run = {"suspend": change.do_suspend, "resume": change.do_resume}[command]
    with pytest.raises(ClientError, match=r"digits has finished .* `railhead retry digits`") as error:
        await run(build_parser().parse_args([command, "digits"]), cluster, Console(io.StringIO()))
    assert error.value.code == ExitCode.REFUSED
    assert not cluster.written


async def test_a_job_that_has_succeeded_is_not_sent_to_retry() -> None:
    cluster: Any = OneJob(make_job(phase="Succeeded", conditions=[make_condition("Complete", "Succeeded")]))
    with pytest.raises(ClientError, match=r"^digits has finished with success, so there is nothing to suspend"):
        await change.do_suspend(build_parser().parse_args(["suspend", "digits"]), cluster, Console(io.StringIO()))


@pytest.mark.parametrize(
    ("is_suspended", "changes", "told"),
    [
        (True, [], "is resumed; `railhead status digits` shows how it starts"),
        (False, [], "was not suspended; `railhead why digits` says what it waits for"),
        (False, ["--set", "image=a:2"], "changed; it was not suspended"),
    ],
)
async def test_a_job_that_waits_for_its_queue_is_not_called_resumed(
    is_suspended: bool, changes: list[str], told: str
) -> None:
    cluster: Any = OneJob(make_job(phase="Queued", spec={"suspend": is_suspended}))
    output = io.StringIO()
    await change.do_resume(build_parser().parse_args(["resume", "digits", *changes]), cluster, Console(output))
    assert output.getvalue() == f"digits: {told}\n"


@pytest.mark.parametrize(
    ("changes", "start"),
    [
        ([], "from job other"),
        (["--set", "resumeFrom=null"], "from scratch, because there is no checkpoint"),
        (["--set", "resumeFrom=other"], "from scratch, because there is no checkpoint"),
    ],
)
async def test_retry_says_what_the_new_job_starts_from(changes: list[str], start: str) -> None:
    failed = make_failed("Hang", "NoSteps")
    failed["spec"]["resumeFrom"] = {"job": "other"}
    cluster: Any = OneJob(failed)
    shown = io.StringIO()
    await change.do_retry(build_parser().parse_args(["retry", "digits", *changes]), cluster, Console(shown))
    assert shown.getvalue().splitlines()[0] == f"digits-r2: created; it starts {start}"
