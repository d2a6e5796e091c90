"""One session: a folder, what runs in it, and how to start and stop it.

The supervisor writes the state, all others read it. A session is up while its
supervisor is alive, whatever the file says; a pid counts only with its start time, so that
a reused one is never mistaken for ours. This module does not know what the supervisor runs.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

from railhead.local import Echo, LocalError
from railhead.local.private import make_private
from railhead.local.processes import MARKER, Identity, die_with_parent, end, end_marked, is_alive, python_command

STARTING = "starting"
READY = "ready"
FAILED = "failed"
STOPPED = "stopped"
SUPERVISOR = "supervisor"
END_GRACE_SECONDS = 20.0
TEMP_PREFIX = "rh-"  # of the folder of an agent's pods, elsewhere for short socket paths
TEMP_NOTE = "temp-folder"  # the file in the node's folder that names it, for the cleanup after a crash


@dataclass(frozen=True)
class Capacity:
    """What the node advertises. It limits no process: it only decides what is scheduled."""

    cpus: int
    memory: int
    gpus: int = 0


def default_capacity(*, gpus: int = 0) -> Capacity:
    """Returns more than the machine has: pods here request what they would need on a cluster, and use less."""
    cpus = os.cpu_count() or 1
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Capacity(cpus=max(16, 4 * cpus), memory=max(32 << 30, 2 * memory), gpus=gpus)


@dataclass(frozen=True)
class State:
    """What the supervisor last wrote.

    Attributes:
        phase: starting, ready, failed or stopped.
        message: why it failed or stopped.
        processes: the process of each component.
    """

    phase: str = STOPPED
    message: str = ""
    server: str = ""
    gpus: int = 0
    processes: Mapping[str, Identity] = field(default_factory=dict)


def parse_state(text: str) -> State:
    """Returns the state; an unreadable one counts as stopped, because `down` must work after any crash."""
    try:
        raw = json.loads(text)
        processes = {}
        for name, process in raw["processes"].items():
            processes[name] = Identity(int(process["pid"]), float(process["started"]))
        return State(
            phase=str(raw["phase"]),
            message=str(raw["message"]),
            server=str(raw["server"]),
            gpus=int(raw["gpus"]),
            processes=processes,
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        return State(message="the state file cannot be read")


class Session:
    """Paths and lifecycle of one session."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.expanduser().resolve()
        self.kubeconfig = self.folder / "admin.kubeconfig"
        self.bin = self.folder / "bin"
        self.kubectl = self.bin / "kubectl"
        self.logs = self.folder / "logs"
        self.node = self.folder / "node"
        self.temp_note = self.node / TEMP_NOTE
        self.lock = self.folder / "lock"
        self.state_file = self.folder / "state.json"
        self.marker = str(self.folder)  # the environment variable that marks the session's processes has this value
        self._supervisor: subprocess.Popen[str] | None = None  # if this process started it

    def state(self) -> State:
        try:
            return parse_state(self.state_file.read_text())
        except OSError:
            return State()

    def write_state(self, state: State) -> None:
        """Replaces the file: a reader sees the old state or the new one."""
        new = self.state_file.with_suffix(".new")
        new.write_text(json.dumps(asdict(state), indent=2) + "\n")
        new.replace(self.state_file)

    def is_up(self) -> bool:
        supervisor = self.state().processes.get(SUPERVISOR)
        return supervisor is not None and is_alive(supervisor)

    def refuse_if_up(self) -> None:
        """Raises LocalError when it is up."""
        if self.is_up():
            raise LocalError(f"a session is up in {self.folder}; stop it with `railhead local down`, or set --dir")

    def up(
        self,
        capacity: Capacity,
        *,
        binaries: Path,
        echo: Echo,
        is_ours_only: bool,
        has_operator: bool = True,
        has_gangs: bool = False,
    ) -> None:
        """Starts the supervisor and waits until everything is ready; an interruption stops it again.

        Args:
            is_ours_only: whether the session ends with this process.
            has_operator: whether to install and run Railhead; otherwise it is a plain Kubernetes cluster.
            has_gangs: whether Kubernetes' own gang scheduler is on.

        Raises:
            LocalError: it is up already, the folder is another user's, or it did not become ready.
        """
        self.refuse_if_up()
        make_private(self.folder)
        self.logs.mkdir(exist_ok=True)
        options = {"folder": self.folder, "binaries": binaries, **asdict(capacity)}
        command = python_command("railhead.local.supervisor", options)
        command += [] if is_ours_only else ["--outlive-parent"]
        command += [] if has_operator else ["--without-operator"]
        command += ["--gang"] if has_gangs else []
        self._supervisor = process = self._spawn_supervisor(command)
        try:
            assert process.stdout is not None
            with process.stdout as lines:
                # Until the supervisor closes it: everything is ready, or it died.
                for line in lines:
                    echo(line.rstrip())
            state = self.state()
            if state.phase != READY or not self.is_up():
                raise LocalError(f"{state.message or 'the supervisor exited'} (logs: {self.logs})")
        except BaseException:
            process.terminate()
            self.down()
            raise

    def _spawn_supervisor(self, command: list[str]) -> subprocess.Popen[str]:
        with (self.logs / "supervisor.log").open("ab") as log:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, MARKER: self.marker},
                start_new_session=True,  # Ctrl-C reaches only this process, which stops it in order
                preexec_fn=partial(die_with_parent, signal.SIGTERM),  # so that it stops in order, too
            )

    def temp_folder(self) -> Path | None:
        """Returns the folder in which the node agent keeps its pods' files."""
        try:
            folder = Path(self.temp_note.read_text())
        except OSError:
            return None
        if folder.is_absolute() and folder.name.startswith(TEMP_PREFIX):
            return folder
        return None

    def end_left(self) -> int:
        """Ends processes that the session left behind, and removes its temporary folder; returns how many."""
        temp = self.temp_folder()
        count = end_marked(MARKER, self.marker, folder=temp)
        if temp is not None and temp.is_dir() and temp.stat().st_uid == os.getuid():
            shutil.rmtree(temp, ignore_errors=True)
        self.temp_note.unlink(missing_ok=True)
        return count

    def down(self) -> int:
        """Stops the session, even after its supervisor crashed; returns how many processes the marker had to find."""
        supervisor = self.state().processes.get(SUPERVISOR)
        if supervisor is not None:
            end(supervisor, grace_seconds=END_GRACE_SECONDS)
        if self._supervisor is not None:
            self._supervisor.wait()
        left = self.end_left()
        state = self.state()
        if state.phase in (STARTING, READY):
            self.write_state(State(STOPPED, "stopped by `railhead local down`", gpus=state.gpus))
        return left
