"""`railhead logs` of pods that are gone, from the archive in the run's folder."""

from __future__ import annotations

import argparse
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from railhead.cli.run_access import open_files, remark

if TYPE_CHECKING:
    from railhead.client.cluster import Cluster
    from railhead.client.logs import Wanted


async def print_archived(
    options: argparse.Namespace, cluster: Cluster, wanted: Wanted, echo: Callable[[str], None]
) -> int:
    """Prints the lines that the archive has of an attempt, the newest one by default; says what is missing."""
    from railhead.api.status import parse_status
    from railhead.client.archived_logs import choose_files, find_attempts, read_lines
    from railhead.client.errors import ExitCode
    from railhead.contract.run_folder import LOGS

    job = await cluster.get_job(options.name)
    uid, attempt = str(job["metadata"]["uid"]), options.attempt or parse_status(job.get("status")).attempt
    async with open_files(options, cluster, job) as files:
        found = await files.find([LOGS])
        chosen = choose_files(found, uid, attempt, rank=wanted.rank, is_all=wanted.is_all)
        if not chosen:
            kept = ", ".join(map(str, find_attempts(found, uid))) or "none"
            remark(
                f"{options.name} has no such pod, and the archive no such lines of attempt {attempt}; it has "
                f"attempts: {kept}. spec.logs.archive decides what it keeps"
            )
            return ExitCode.NOT_FOUND
        sources = {file.name: source for source, file in chosen}
        data: dict[str, bytearray] = {}
        lines: dict[str, deque[str]] = {}

        def flush() -> None:
            for name, content in data.items():
                prefix = f"[{_name(sources[name])}] " if wanted.is_all else ""
                new = (prefix + line for line in read_lines(bytes(content)))
                if wanted.tail is None:
                    _print(new, echo)
                else:
                    lines.setdefault(sources[name], deque(maxlen=wanted.tail)).extend(new)
            data.clear()

        async for file, chunk in files.stream([file for _, file in chosen]):
            if file.name not in data:
                flush()
            data.setdefault(file.name, bytearray()).extend(chunk)
        flush()
        for last in lines.values():
            _print(last, echo)
    return ExitCode.DONE


def _name(source: str) -> str:
    return f"rank {source}" if source.isdigit() else source


def _print(lines: Iterable[str], echo: Callable[[str], None]) -> None:
    for line in lines:
        echo(line)
