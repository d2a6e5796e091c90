"""Carries what the processes in the head pod tell each other: three values, each in a JSON file of one writer.

Ray Train's controller writes `FromController`, a file for each fit(), since a script may call several; the driver
writes `FromDriver`, the user's script `FromScript`. A file is replaced atomically, so a reader finds a value that was
written, never half of one. A datagram on a local socket wakes the driver after each change; if it is lost, the next one
has the same effect.

Requests come from any process, also by `kubectl exec`: each requester has a file, and gets its answer in another.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import threading
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Generic, Optional, TypeVar

from railhead.contract import environment
from railhead.contract.json_values import load_value
from railhead.driver.mailbox.values import FromController, FromDriver, FromScript, Stack, Value

_REQUEST = ".stacks-request"
_SOCKET = "mailbox.sock"
T = TypeVar("T", bound=Value)


class MailboxFile(Generic[T]):
    """One value in its file, which a single process changes; `default` before its first change."""

    def __init__(self, folder: Path, name: str, default: T) -> None:
        self._folder = folder
        self._file = folder / f"{name}.json"
        self._default = default

    def read(self) -> T:
        """Returns the value; before the first change, or if the file cannot be read, the default."""
        try:
            values = json.loads(self._file.read_text())
        except (OSError, ValueError):
            return self._default
        value: T = load_value(type(self._default), values)
        return value

    def change(self, change: Callable[[T], T]) -> None:
        """Replaces the value by what `change` makes of it, and wakes the driver. Raises OSError.

        The threads of the process wait for each other here.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        # On a file, since the callback and the failure policy of one controller have a mailbox each; and on a file of
        # its own, since the value's is replaced, and with it any lock on it.
        with open(self._file.with_suffix(".lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            before = self.read()
            after = change(before)
            # Nothing new to tell, so nothing to wake the driver for.
            if after == before:
                return
            _replace(self._file, json.dumps(asdict(after)))
        wake(self._folder)


class Mailbox:
    """One head pod's mailbox, by its folder.

    Attributes:
        controller: of the fit() of this number. Its counts continue those of the fit() before it.
    """

    def __init__(self, folder: Path, *, fit: int = 1) -> None:
        self._folder = folder
        default = FromController()
        if fit > 1:
            before = Mailbox(folder, fit=fit - 1).controller.read()
            default = replace(
                before,
                failure=None,
                has_returned=False,
                heartbeat=None,
                rule_warning=None,
                tracker_url="",  # each fit() is a run of its own in a tracker
                validations="",
            )
        self.controller: MailboxFile[FromController] = MailboxFile(folder, f"fit-{fit}", default)
        self.driver = MailboxFile(folder, "driver", FromDriver())
        self.script = MailboxFile(folder, "script", FromScript())

    def read_newest_fit(self) -> FromController:
        """Returns what the controller tells of the script's last fit(), or of the trainer's only one."""
        fit = self.script.read().fit
        if fit:
            return Mailbox(self._folder, fit=max(fit.number, 1)).controller.read()
        return self.controller.read()

    def ask_for_stacks(self, requester: str) -> None:
        """Asks the controller, which answers at its next poll of the workers; `requester` is part of a file's name."""
        # The previous answer goes first, so that it is not taken for the new one.
        self._answer_file(requester).unlink(missing_ok=True)
        _replace(self._folder / f"{requester}{_REQUEST}", "")

    def read_stacks(self, requester: str) -> Optional[list[Stack]]:
        """Returns the answer, None before there is one."""
        try:
            return [Stack(**each) for each in json.loads(self._answer_file(requester).read_text())]
        except (OSError, ValueError):
            return None

    def answer_requests(self, collect: Callable[[], list[Stack]]) -> None:
        """Writes the stacks for all who ask for them; collects them once, and only if they are wanted."""
        requests = list(self._folder.glob(f"*{_REQUEST}"))
        if not requests:
            return
        # Before the stacks are collected: who asks meanwhile, asks for later ones.
        for request in requests:
            request.unlink(missing_ok=True)
        stacks = [asdict(stack) for stack in collect()]
        for request in requests:
            _replace(self._answer_file(request.name.removesuffix(_REQUEST)), json.dumps(stacks))

    def _answer_file(self, requester: str) -> Path:
        return self._folder / f"{requester}.stacks.json"

    def open_socket(self) -> socket.socket:
        """Returns the driver's end of the socket, which has a datagram after each change."""
        address = self._folder / _SOCKET
        address.unlink(missing_ok=True)
        receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        receiver.bind(str(address))
        return receiver

    def wake(self) -> None:
        """Makes the driver look at the mailbox again."""
        wake(self._folder)


def open_mailbox(*, fit: int = 1) -> Mailbox:
    """Returns the mailbox of the head pod in which this process runs."""
    return Mailbox(Path(os.environ[environment.TEMP]), fit=fit)


def wake(folder: Path) -> None:
    """Sends the driver a datagram, and never waits for it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        # The driver does not listen yet, or has not read the last datagrams: then it is about to look anyway.
        with contextlib.suppress(OSError):
            sender.sendto(b"1", str(folder / _SOCKET))


def _replace(file: Path, text: str) -> None:
    """Replaces the file atomically."""
    temporary = file.with_name(f"{file.name}.{os.getpid()}.{threading.get_ident()}")
    temporary.write_text(text)
    os.replace(temporary, file)
