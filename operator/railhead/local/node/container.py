"""One container as processes on this machine: its own session, one log file, one exit code.

When its first process ends, all other processes of the container are killed, as in a PID
namespace; daemonised ones are found by the marker in their environment, or by their working
folder.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from railhead.local.processes import MARKER, die_with_parent, end_marked

CONTAINER_MARKER = "RAILHEAD_LOCAL_CONTAINER"
# What a container inherits from the agent's own environment: nothing that could be a secret.
# The session's marker identifies it even after the agent has crashed.
INHERITED = (MARKER, "LANG", "LC_ALL", "TZ", "USER", "LOGNAME")


def base_environment() -> dict[str, str]:
    """The host's environment in place of the image's: this interpreter comes first on PATH."""
    kept = {name: os.environ[name] for name in INHERITED if name in os.environ}
    path = [str(Path(sys.executable).parent), os.environ.get("PATH", "/usr/bin:/bin")]
    return {"HOME": os.environ.get("HOME", "/"), **kept, "PATH": os.pathsep.join(path)}


@dataclass
class RunningContainer:
    """A started container."""

    process: asyncio.subprocess.Process
    marker: str
    folder: Path

    async def wait(self) -> int:
        """Its exit code in asyncio's convention, after everything it started has ended."""
        code = await self.process.wait()
        await asyncio.to_thread(end_marked, CONTAINER_MARKER, self.marker, folder=self.folder)
        return code

    def terminate(self) -> None:
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        self._send(signal.SIGKILL)

    def _send(self, sig: signal.Signals) -> None:
        if self.process.returncode is None:
            self.process.send_signal(sig)


async def start_container(
    command: Sequence[str], *, env: Mapping[str, str], marker: str, folder: Path, log: Path
) -> RunningContainer:
    """Starts the first process of a container, in its private folder.

    Raises:
        OSError: the command cannot be run.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as out:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**base_environment(), **env, CONTAINER_MARKER: marker},
            cwd=folder,
            start_new_session=True,
            preexec_fn=die_with_parent,
        )
    return RunningContainer(process, marker, folder)
