"""Operators that are forked from a process which has imported their modules once.

An operator of its own interpreter needs 2 s of processor time until it watches, of which 1.5 s are imports.
tests/operator/test_upgrade.py, tests/local and tests/e2e start the real command.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from railhead.local.processes import die_with_parent

IMPORTED = ("railhead.cli.main", "railhead.cli.operator", "railhead.controller.app")
LONGEST_REQUEST = 1 << 16


class ForkedOperator:
    """As much of subprocess.Popen as tests need.

    Attributes:
        pid: of the operator.
    """

    def __init__(self, arguments: Sequence[str], *, log: Path) -> None:
        """Starts `railhead ARGUMENTS` in its own session, with its output in the file."""
        log.parent.mkdir(parents=True, exist_ok=True)
        self._keeper, theirs = socket.socketpair()
        with theirs, log.open("ab") as out:
            request = json.dumps(list(arguments)).encode()
            assert len(request) < LONGEST_REQUEST
            socket.send_fds(start_template(), [request], [out.fileno(), theirs.fileno()])
        self.pid = int(self._keeper.recv(16))
        self._pidfd = os.pidfd_open(self.pid)
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Returns the exit code, minus the number of the signal that has ended it, or None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.wait(timeout=0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        """Returns the exit code. Raises TimeoutExpired."""
        if self.returncode is not None:
            return self.returncode
        self._keeper.settimeout(timeout)
        try:
            # Without an answer its keeper was killed, and the kernel has killed the operator with it.
            self.returncode = int(self._keeper.recv(16) or -signal.SIGKILL)
        except (TimeoutError, BlockingIOError):
            raise subprocess.TimeoutExpired("operator", timeout or 0) from None
        self._keeper.close()
        os.close(self._pidfd)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


@functools.cache
def start_template() -> socket.socket:
    """Starts the process to fork from, which ends with this one; returns where it takes requests."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        # By its path: with -P, Python does not find the package `tests`.
        command = [sys.executable, "-P", __file__, str(theirs.fileno())]
        # In its own session: a signal to the tests' group ends them first, and they end the operators.
        process = subprocess.Popen(
            command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, start_new_session=True
        )

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


def serve(requests: socket.socket) -> None:
    """Starts an operator for each request, until no process can send any more."""
    while True:
        request, fds, _, _ = socket.recv_fds(requests, LONGEST_REQUEST, 2)
        if not request:
            return
        if os.fork() == 0:
            requests.close()
            keep(json.loads(request), *fds)
        for fd in fds:
            os.close(fd)


def keep(arguments: list[str], out: int, asker: int) -> None:
    """Runs in a process between the template and the operator: reports the operator's process ID, then its end."""
    die_with_parent()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pid = os.fork()
    if pid == 0:
        os.close(asker)
        run(arguments, out)
    os.write(asker, b"%d" % pid)
    _, status = os.waitpid(pid, 0)
    with contextlib.suppress(BrokenPipeError):  # nobody waits for it any more
        os.write(asker, b"%d" % os.waitstatus_to_exitcode(status))
    os._exit(0)


def run(arguments: list[str], out: int) -> None:
    """Becomes the operator, and does not return."""
    die_with_parent()
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for standard in (1, 2):
        os.dup2(out, standard)
    os.close(out)
    main = import_module("railhead.cli.main").main
    sys.exit(main(arguments))


if __name__ == "__main__":
    # Ctrl-C reaches the whole group; this process ends with the tests' one, and its children need no one to reap them.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for name in IMPORTED:
        import_module(name)
    serve(socket.socket(fileno=int(sys.argv[1])))
