"""`railhead list` and `top`: the order, what it prints again, and what 2,000 jobs take, also in `doctor`."""

from __future__ import annotations

import asyncio
import io
import json
import os
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

import railhead
from railhead.cli import jobs as commands
from railhead.cli.output import Console
from railhead.cli.parser import build_parser
from railhead.client.cluster.connection import Target, open_cluster
from railhead.client.cluster.job_rows import read_row
from railhead.json_object import Object
from railhead.kube.pages import PAGE_SIZE
from tests.unit.cli.api_server import serve
from tests.unit.cli.screens import JOBS, FixedCluster
from tests.unit.client.jobs import make_running

MEASURED = """
import sys, time
from railhead.cli.main import main
assert main(sys.argv[2:]) == int(sys.argv[1])
peak = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(time.process_time(), peak, file=sys.stderr)
"""


def make_numbered(number: int, version: int = 1, percent: int = 0) -> Object:
    job = make_running(
        progress={"percentComplete": percent},
        workers={"desired": 1, "ready": 1},
        spec={"scaling": {"useGPU": True, "resourcesPerWorker": {"nvidia.com/gpu": number % 8 + 1}}},
    )
    job["metadata"] |= {"name": f"job-{number:04}", "uid": f"u{number}", "resourceVersion": str(version)}
    return job


class Jobs:
    """An API server with many TrainJobs, which it lists by pages; a test sends changes of them.

    Attributes:
        requests: how many there were, by their kind.
    """

    def __init__(self, count: int) -> None:
        self.jobs = [make_numbered(number) for number in range(count)]
        self.requests: Counter[str] = Counter()
        self.changes: asyncio.Queue[Object] = asyncio.Queue()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if "watch" in request.query:
            return await self._watch(request)
        limit = int(request.query["limit"])
        start = int(request.query.get("continue") or 0)
        self.requests["list" if limit > 1 else "question"] += 1
        rest = start + limit < len(self.jobs)
        metadata = {"resourceVersion": "1", "continue": str(start + limit) if rest else ""}
        return web.json_response({"metadata": metadata, "items": self.jobs[start : start + limit]})

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        self.requests["watch"] += 1
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            event = {"type": "MODIFIED", "object": await self.changes.get()}
            await response.write(json.dumps(event).encode() + b"\n")


class Screen(io.StringIO):
    """What was printed; sets `has_table` after each table."""

    def __init__(self) -> None:
        super().__init__()
        self.has_table = asyncio.Event()

    def flush(self) -> None:
        self.has_table.set()

    async def wait_table(self) -> list[str]:
        """Returns the lines of the next table."""
        await asyncio.wait_for(self.has_table.wait(), 60)
        self.has_table.clear()
        lines = self.getvalue().splitlines()
        self.seek(0)
        self.truncate()
        return lines


async def test_2000_jobs_take_one_list_and_one_watch_and_a_change_one_more_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "SHORTEST_SECONDS", 0.0)
    jobs, screen = Jobs(2000), Screen()
    options = build_parser().parse_args(["top", "-A", "-w"])
    async with serve(jobs.answer, tmp_path) as config, open_cluster(Target(config, is_everywhere=True)) as cluster:
        showing = asyncio.create_task(commands.do_top(options, cluster, Console(screen)))
        lines = await screen.wait_table()
        assert len(lines) == 1 + 2000
        assert [line.split()[3] for line in lines[1:252:50]] == ["8"] * 5 + ["7"]
        jobs.changes.put_nowait(make_numbered(7, version=2, percent=43))
        changed = await screen.wait_table()
        assert changed[0] == ""
        assert [line.split()[1] for line in changed if "43%" in line] == ["job-0007"]
        assert jobs.requests == {"question": 1, "list": 2000 // PAGE_SIZE, "watch": 1}
        showing.cancel()
        await asyncio.gather(showing, return_exceptions=True)


def make_large(number: int) -> Object:
    """A job of about 9 kB, most of which no table shows."""
    job = make_numbered(number)
    fields: Object = {f"f:field{each}": {"f:a": {}, "f:b": {}} for each in range(40)}
    writers = [{"manager": name, "fieldsV1": {"f:status": fields}} for name in ("kubectl", "railhead", "reports")]
    job["metadata"]["managedFields"] = writers
    job["status"]["attempts"] = [{"number": each, "message": "the node is gone " * 12} for each in range(10)]
    job["status"]["progress"]["metrics"] = {f"metric-{each}": "0.123456" for each in range(20)}
    return job


@pytest.mark.slow
@pytest.mark.parametrize(("command", "code", "lines"), [("list", 0, 2001), ("top", 0, 2001), ("doctor", 1, 22)])
async def test_2000_large_jobs_take_two_seconds_of_a_processor_and_150_mib(
    command: str, code: int, lines: int, tmp_path: Path
) -> None:
    jobs = Jobs(0)
    jobs.jobs = [make_large(number) for number in range(2000)]

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.path.endswith("/trainjobs"):
            return await jobs.answer(request)
        if request.path == "/version":
            return web.json_response({"minor": "36", "gitVersion": "v1.36.1"})
        return web.json_response({"kind": "Status", "code": 404}, status=404)

    async with serve(answer, tmp_path) as config:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-c", MEASURED, str(code), command, "-A", "--kubeconfig", config),
            env={**os.environ, "PYTHONPATH": str(Path(railhead.__file__).parents[1])},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await asyncio.wait_for(process.communicate(), 120)
    assert len(out.splitlines()) == lines, err.decode()
    seconds, kibibytes = err.split()
    assert float(seconds) < 2
    assert int(kibibytes) < 150 << 10


@pytest.mark.parametrize(("format_", "documents"), [("table", 2), ("yaml", 2)])
async def test_ages_are_shown_again_without_a_change(
    format_: str, documents: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "SHORTEST_SECONDS", 0.0)
    monkeypatch.setattr(commands, "LONGEST_SECONDS", 0.01)
    screen = Screen()
    options = build_parser().parse_args(["top", "-A", "-w", "-o", format_])
    async with serve(Jobs(1).answer, tmp_path) as config, open_cluster(Target(config, is_everywhere=True)) as cluster:
        showing = asyncio.create_task(commands.do_top(options, cluster, Console(screen)))
        for _ in range(documents):
            assert "job-0000" in "\n".join(await screen.wait_table())
        showing.cancel()
        await asyncio.gather(showing, return_exceptions=True)


@pytest.mark.parametrize(("by", "order"), [("gpus", ["large", "old", "new"]), ("age", ["old", "large", "new"])])
def test_the_order_is_by_gpus_or_by_age(by: str, order: list[str]) -> None:
    row = read_row(make_running())
    rows = [
        replace(row, name="new", created="2026-11-25T12:00:00Z", gpus=1),
        replace(row, name="large", created="2026-11-25T11:00:00Z", gpus=8),
        replace(row, name="old", created="2026-11-25T10:00:00Z", gpus=1),
    ]
    assert [each.name for each in commands.sort_rows(rows, by)] == order


@pytest.mark.parametrize(("arguments", "lines"), [(["-w"], 1 + 2), ([], 1 + 5)])
def test_a_watched_table_has_as_many_jobs_as_the_terminal_has_lines(arguments: list[str], lines: int) -> None:
    stream = io.StringIO()
    console = Console(stream, width=80, is_terminal=True)
    console.height = 4
    rows = [read_row(make_numbered(number)) for number in range(5)]
    options = build_parser().parse_args(["top", *arguments])
    cluster: Any = FixedCluster("team-a")
    commands._print_top(rows, options, cluster, console)
    assert len(stream.getvalue().splitlines()) == lines


def test_a_terminal_is_emptied_and_in_a_pipe_a_line_separates_tables() -> None:
    stream = io.StringIO()
    Console(stream, is_terminal=True).clear()
    Console(stream).clear()
    assert stream.getvalue() == "\x1b[H\x1b[2J\n"


def make_changing_cluster(changes: list[tuple[Object | None, Object | None]]) -> Any:
    """A cluster whose watch has these changes of a job, each from one to the next."""

    class ChangingCluster(FixedCluster):
        async def watch_jobs(self, selector: str, on_change: Any, read: Any) -> None:
            for old, new in changes:
                on_change(old and read(old), new and read(new))

    return ChangingCluster("team-a")


async def test_watching_prints_a_job_again_only_when_its_row_differs() -> None:
    stream = io.StringIO()
    same, changed = JOBS["digits"], make_running(progress={"percentComplete": 43})
    await commands.do_list(
        build_parser().parse_args(["list", "-w"]),
        make_changing_cluster([(None, same), (same, changed), (changed, changed), (changed, None)]),
        Console(stream),
    )
    last = [line.split() for line in stream.getvalue().splitlines()[-2:]]
    assert last == [["digits", "Running", "43%", "-", "1", "-", "2h"], ["digits", "is", "gone"]]
    assert len(stream.getvalue().splitlines()) == 1 + len(JOBS) + 2


async def test_watching_in_a_data_format_prints_documents_only(capsys: pytest.CaptureFixture[str]) -> None:
    stream = io.StringIO()
    await commands.do_list(
        build_parser().parse_args(["list", "-w", "-o", "yaml"]),
        make_changing_cluster([(None, make_running()), (make_running(), None)]),
        Console(stream),
    )
    assert [len(each["items"]) for each in yaml.safe_load_all(stream.getvalue())] == [len(JOBS), 1]
    assert capsys.readouterr().err == "digits is gone\n"
