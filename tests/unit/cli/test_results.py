"""What commands print of a run's folder: curves, checkpoints, archived logs and the journal."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import zipfile
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from railhead.cli import logs, read, results
from railhead.cli.output import Console
from railhead.cli.parser import build_parser
from railhead.client.cluster.job_snapshot import JobSnapshot, PodState
from railhead.client.exit_codes import ClientError, ExitCode
from railhead.client.run.folder_program import FileCheck
from railhead.client.run.process_files import ProcessFiles
from railhead.client.run.run_files import RunFile
from railhead.client.run.store_files import StoreFiles
from railhead.json_object import Object
from tests.unit.client.jobs import make_job, make_snapshot
from tests.unit.client.run_folder import HOSTILE, write_run


class FixedCluster:
    """A cluster with a job, and no pod any more."""

    namespace = "team-a"
    client = SimpleNamespace(clock=SimpleNamespace(now=lambda: datetime(2026, 11, 25, 10, 1, tzinfo=UTC)))

    async def get_job(self, name: str) -> Object:
        return make_job(name, phase="Failed", attempt=2, bestCheckpoint={"uri": "s3://b/r/checkpoint_1", "index": 0})

    async def list_pods(self, uid: str) -> list[PodState]:
        return []

    async def read_snapshot(self, name: str) -> JobSnapshot:
        return make_snapshot(make_job(name))


RUNS = {
    "metrics": results.do_metrics,
    "checkpoints": results.do_checkpoints,
    "logs": logs.do_logs,
    "timeline": read.do_timeline,
}


async def show(*arguments: str, width: int | None = None, code: int = 0) -> str:
    """Returns what the command prints."""
    options = build_parser().parse_args(arguments)
    stream, cluster = io.StringIO(), FixedCluster()
    fixed: Any = cluster
    assert await RUNS[arguments[0]](options, fixed, Console(stream, width=width)) == code
    return stream.getvalue()


@pytest.fixture
def run(tmp_path: Path) -> Path:
    run = tmp_path / "run"
    write_run(run)
    return run


async def test_metrics_are_curves_or_rows(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = await show("metrics", "digits", "--metric", "loss", "--folder", str(run), width=80)
    title, line = table.splitlines()
    assert title.split() == ["METRIC", "JOB", "CURVE", "LAST", "LOWEST", "HIGHEST"]
    assert line.split() == ["loss", "digits", "█▄▂▂▁▁▁▁", "0.125", "0.125", "1"]
    rows = list(csv.reader(io.StringIO(await show("metrics", "digits", "-o", "csv", "--folder", str(run)))))
    assert rows[0][:6] == ["job", "attempt", "time", "report", "step", "loss"]
    assert len(rows) == 9 and len(rows[1]) == 7
    found = json.loads(await show("metrics", "digits", "-o", "json", "--metric", "loss", "--folder", str(run)))
    assert [each["metrics"] for each in found["reports"]] == [{"loss": 1 / n} for n in range(1, 9)]
    assert found["gaps"] == []
    assert capsys.readouterr().err == ""


async def test_metrics_become_a_picture_beside_what_is_printed(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "loss.svg"
    of_loss = ("metrics", "digits", "--metric", "loss", "--folder", str(run))
    assert await show(*of_loss, "--plot", str(file), "-o", "csv") == await show(*of_loss, "-o", "csv")
    assert "<svg" in file.read_text()
    assert f"wrote {file}" in capsys.readouterr().err


async def test_what_is_missing_is_said(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = run / ".railhead" / "metrics" / "1-ab-1.jsonl"
    file.write_bytes(file.read_bytes()[:-5])
    await show("metrics", "digits", "--folder", str(run))
    assert "1 lines in the history of digits cannot be read" in capsys.readouterr().err
    file.unlink()
    await show("metrics", "digits", "--folder", str(run), code=ExitCode.FAILED)
    assert "has no reports of digits" in capsys.readouterr().err


@pytest.mark.parametrize("output", ["table", "csv", "json"])
async def test_a_metric_that_was_never_reported_is_an_error_that_names_the_others(
    output: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    of_run = ("metrics", "digits", "-o", output, "--folder", str(run))
    printed = await show(*of_run, "--metric", "los", code=ExitCode.FAILED)
    said = printed + capsys.readouterr().err
    assert "digits has reported no metric los; its metrics are: " in said and "loss" in said
    await show(*of_run, "--metric", "los", "--metric", "loss", code=ExitCode.DONE)


@pytest.mark.parametrize("follow", [(), ("-f",)])
async def test_a_rank_that_the_job_cannot_have_is_an_error(follow: tuple[str, ...]) -> None:
    with pytest.raises(ClientError, match="--rank 2: digits has ranks 0 to 1") as error:
        await show("logs", "digits", "--rank", "2", *follow)
    assert error.value.code == ExitCode.NOT_FOUND


@pytest.mark.parametrize("command", [("metrics", "digits"), ("checkpoints", "digits")])
async def test_no_character_of_the_run_acts_on_a_terminal(run: Path, command: tuple[str, ...]) -> None:
    for output in ("table", "csv", "json"):
        if output != "csv" or command[0] == "metrics":
            shown = await show(*command, "--folder", str(run), "-o", output, width=80)
            assert not {"\x1b", "\x07"} & set(shown)


async def test_checkpoints_are_listed_and_the_best_one_is_copied(run: Path, tmp_path: Path) -> None:
    lines = (await show("checkpoints", "digits", "--folder", str(run))).splitlines()
    assert lines[0].split() == ["NAME", "TIME", "STEP", "SIZE", "IS", "METRICS"]
    assert lines[1].split()[:6] == ["checkpoint_1", "2026-11-25T10:00:01.000Z", "2", "7", "B", "best"]
    assert lines[2].split()[:5] == ["checkpoint_2", "-", "3", "lost", "newest"]
    target = tmp_path / "copy"
    assert await show("checkpoints", "digits", "--folder", str(run), "--download", str(target)) == f"{target}\n"
    assert (target / "model.pt").read_bytes() == b"weights"
    with pytest.raises(ClientError, match="the files of checkpoint checkpoint_2 are gone"):
        await show(
            "checkpoints", "digits", "--folder", str(run), "--checkpoint", "newest", "--download", str(tmp_path / "b")
        )


async def test_a_checkpoint_that_is_cut_off_is_told_from_an_intact_one(run: Path) -> None:
    of_run = ("checkpoints", "digits", "--verify", "--folder", str(run))
    model = run / "checkpoint_1" / "model.pt"
    with zipfile.ZipFile(model, "w") as archive:
        archive.writestr("data.pkl", "weights")
    (run / "checkpoint_1" / "notes").write_text(HOSTILE)
    title, row = (await show(*of_run, "--checkpoint", "best")).splitlines()
    assert title.split() == ["NAME", "TIME", "STEP", "SIZE", "IS", "FILES", "METRICS"]
    assert "intact, 1 of 2 checked" in row
    assert " lost " in await show(*of_run, code=ExitCode.FAILED), "checkpoint_2 has no files"
    model.write_bytes(model.read_bytes()[:-1])
    table = await show(*of_run, "--checkpoint", "best", code=ExitCode.FAILED)
    assert "damaged, 0 of 2 checked" in table
    assert "checkpoint_1: model.pt: it is damaged (BadZipFile: File is not a zip file)." in table
    [row] = json.loads(await show(*of_run, "--checkpoint", "best", "-o", "json", code=ExitCode.FAILED))["checkpoints"]
    assert row["verification"]["checked"] == 0 and len(row["verification"]["damage"]) == 1


def write_snapshot(run: Path, *names: str) -> None:
    """As Ray does when it keeps these checkpoints, of which the last one is the newest."""
    entries = [{"checkpoint_dir_name": name, "metrics": {}} for name in names]
    snapshot = {"checkpoint_results": entries, "latest_checkpoint_result": entries[-1] if entries else None}
    (run / "checkpoint_manager_snapshot.json").write_text(json.dumps(snapshot))


async def test_a_checkpoint_that_the_job_deletes_while_it_is_checked_is_left_out(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = ProcessFiles.check

    async def delete_and_check(files: ProcessFiles, found: Sequence[RunFile]) -> list[FileCheck]:
        write_snapshot(run, "checkpoint_2")
        (run / "checkpoint_1" / "model.pt").unlink(missing_ok=True)
        return await check(files, found)

    monkeypatch.setattr(ProcessFiles, "check", delete_and_check)
    found = await show("checkpoints", "digits", "--verify", "--folder", str(run), "-o", "json", code=ExitCode.FAILED)
    assert [each["name"] for each in json.loads(found)["checkpoints"]] == ["checkpoint_2"], "which is lost"


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_a_checkpoint_that_was_whole_when_it_was_checked_stays_though_the_job_deletes_all(
    run: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    check = ProcessFiles.check
    with zipfile.ZipFile(run / "checkpoint_1" / "model.pt", "w") as archive:
        archive.writestr("data.pkl", "weights")

    async def delete(files: ProcessFiles, found: Sequence[RunFile]) -> list[FileCheck]:
        checks = await check(files, found) if moment == "after" else []
        write_snapshot(run)
        shutil.rmtree(run / "checkpoint_1")
        return checks or await check(files, found)

    monkeypatch.setattr(ProcessFiles, "check", delete)
    of_run = ("checkpoints", "digits", "--verify", "--folder", str(run), "-o", "json")
    if moment == "after":
        assert [each["name"] for each in json.loads(await show(*of_run))["checkpoints"]] == ["checkpoint_1"]
    else:
        with pytest.raises(ClientError, match="the job deletes checkpoints faster than they can be read"):
            await show(*of_run)


class DeletingJob:
    """A job that deletes the checkpoint which is copied, as often as wanted, and has a newer one instead.

    Attributes:
        moment: before its files are listed, after that, or before they are read.
    """

    def __init__(self, run: Path, monkeypatch: pytest.MonkeyPatch, moment: str, *, times: int, number: int = 1) -> None:
        self.run, self.moment, self.times, self.number = run, moment, times, number
        find, stream = StoreFiles.find, StoreFiles.stream

        async def find_and_delete(files: StoreFiles, names: Sequence[str]) -> list[RunFile]:
            wanted = f"checkpoint_{self.number}"
            self.commit("before the list", names == [wanted])
            found = await find(files, names)
            self.commit("after the list", names == [wanted])
            return found

        def delete_and_stream(files: StoreFiles, wanted: Sequence[RunFile]) -> AsyncIterator[tuple[RunFile, bytes]]:
            self.commit("at the copy", any(re.match("checkpoint_[0-9]+/", file.name) for file in wanted))
            return stream(files, wanted)

        monkeypatch.setattr(StoreFiles, "find", find_and_delete)
        monkeypatch.setattr(StoreFiles, "stream", delete_and_stream)

    def commit(self, moment: str, is_copy: bool) -> None:
        if moment != self.moment or not is_copy or not self.times:
            return
        self.times -= 1
        self.number += 1
        new = self.run / f"checkpoint_{self.number}"
        new.mkdir(exist_ok=True)
        (new / "a.json").write_text(str(self.number))
        (new / "model.pt").write_bytes(b"newer")
        write_snapshot(self.run, new.name)
        shutil.rmtree(self.run / f"checkpoint_{self.number - 1}")


@pytest.mark.parametrize(("kept", "times", "listed"), [(2, 9, "checkpoint_4"), (1, 1, "checkpoint_3"), (1, 9, None)])
async def test_checkpoints_that_the_job_deletes_before_they_are_listed_are_read_again_and_then_left_out(
    run: Path, monkeypatch: pytest.MonkeyPatch, kept: int, times: int, listed: str | None
) -> None:
    find, newest = StoreFiles.find, 2

    def commit(number: int) -> None:
        names = [f"checkpoint_{each}" for each in range(number - kept + 1, number + 1)]
        write_snapshot(run, *names)
        (run / names[-1]).mkdir(exist_ok=True)
        (run / names[-1] / "a.json").write_text("1")
        shutil.rmtree(run / f"checkpoint_{number - kept}", ignore_errors=True)

    async def commit_and_find(files: StoreFiles, names: Sequence[str]) -> list[RunFile]:
        nonlocal newest, times
        if names[-1] == f"checkpoint_{newest}" and times:
            newest, times = newest + 1, times - 1
            commit(newest)
        return await find(files, names)

    commit(newest)
    monkeypatch.setattr(StoreFiles, "find", commit_and_find)
    of_run = ("checkpoints", "digits", "--folder", run.as_uri(), "-o", "json")
    if listed:
        assert [each["name"] for each in json.loads(await show(*of_run))["checkpoints"]] == [listed]
    else:
        with pytest.raises(ClientError, match="the job deletes checkpoints faster than they can be read"):
            await show(*of_run)


@pytest.mark.parametrize("moment", ["before the list", "after the list", "at the copy"])
async def test_a_checkpoint_that_the_job_deletes_while_it_is_copied_is_chosen_again(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], moment: str
) -> None:
    copy = ("checkpoints", "digits", "--folder", run.as_uri(), "--download")
    with monkeypatch.context() as patch:
        DeletingJob(run, patch, moment, times=2)
        await show(*copy, str(tmp_path / "copy"))
    files = {path.name: path.read_bytes() for path in (tmp_path / "copy").iterdir()}
    assert files == {"a.json": b"3", "model.pt": b"newer"}
    assert "the job has deleted checkpoint_1 meanwhile" in capsys.readouterr().err
    DeletingJob(run, monkeypatch, moment, times=3, number=3)
    with pytest.raises(ClientError, match="the job deletes checkpoints faster than they can be read"):
        await show(*copy, str(tmp_path / "other"))
    assert not list((tmp_path / "other").rglob("*")), "an incomplete copy is removed"


async def test_a_snapshot_that_has_grown_since_it_was_listed_is_read_again(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find, snapshot = StoreFiles.find, run / "checkpoint_manager_snapshot.json"
    whole = snapshot.read_text()
    snapshot.write_text(whole[:20])  # as Ray leaves it for a moment

    async def find_and_write(files: StoreFiles, names: Sequence[str]) -> list[RunFile]:
        found = await find(files, names)
        snapshot.write_text(whole)
        return found

    monkeypatch.setattr(StoreFiles, "find", find_and_write)
    assert "checkpoint_1" in await show("checkpoints", "digits", "--folder", run.as_uri())


async def test_a_named_checkpoint_that_the_job_deletes_while_it_is_copied_is_an_error(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    DeletingJob(run, monkeypatch, "at the copy", times=1)
    of_run = ("checkpoints", "digits", "--folder", run.as_uri(), "--checkpoint", "checkpoint_1")
    with pytest.raises(ClientError, match="the job has deleted checkpoint_1 while it was copied"):
        await show(*of_run, "--download", str(tmp_path / "copy"))
    assert not list((tmp_path / "copy").rglob("*"))


async def test_logs_of_pods_that_are_gone_come_from_the_archive(run: Path) -> None:
    of_attempt = ("logs", "digits", "--attempt", "1", "--folder", str(run))
    shown = HOSTILE.replace("\x1b]0;owned\x07", "")  # in a pipe only what commands a terminal is left out
    assert await show(*of_attempt, "--rank", "1") == f"one of 1\n{shown}\n"
    assert await show(*of_attempt, "--all", "--tail", "1") == f"[rank 0] {shown}\n[rank 1] {shown}\n"
    assert await show(*of_attempt, "--rank", "1", "--since", "59s") == ""
    assert await show(*of_attempt, "--rank", "1", "--since", "60s") == f"one of 1\n{shown}\n"


async def test_lines_that_the_archive_does_not_have_are_named(run: Path) -> None:
    known = r"no such lines of attempt 2; it has attempts: 1\. spec\.logs\.archive decides what it keeps"
    with pytest.raises(ClientError, match=known) as raised:
        await show("logs", "digits", "--folder", str(run))
    assert raised.value.code == ExitCode.NOT_FOUND
    with pytest.raises(ClientError, match="leave out --attempt"):
        await show("logs", "digits", "-f", "--attempt", "1")


async def test_the_timeline_has_the_journal_only_if_it_is_wanted(run: Path) -> None:
    plain = await show("timeline", "digits", "--folder", str(run))
    whole = await show("timeline", "digits", "--journal", "--folder", str(run))
    assert "journal" not in plain
    [added] = [line for line in whole.splitlines() if line.endswith("journal")]
    assert added.split()[:2] == ["2026-11-25T10:00:01.000Z", "Checkpoint"]
