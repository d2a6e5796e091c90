"""Tells the driver which validations Ray Train waits for after training: no rank is left that could be asked.

Ray Train waits in its controller, without a limit unless the validation has one, and calls no callback meanwhile. So a
thread looks.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from functools import partial
from pathlib import PurePosixPath
from typing import Any, Optional

from railhead.driver.mailbox.mailbox import Mailbox
from railhead.driver.messages.log import never_raises
from railhead.driver.messages.redaction import redact
from railhead.driver.ray.steps_callback import ControllerStep
from railhead.driver.ray.types import WorkerGroup
from railhead.driver.ray.validations import find_validation_manager, read_validations

LOOK_SECONDS = 5.0
NAME_CHARS = 100


class ValidationsStep(ControllerStep):
    """Looks from the end of training until the controller has a final state."""

    def __init__(self, mailbox: Mailbox) -> None:
        self._mailbox = mailbox
        self._manager: Optional[Any] = None
        self._has_ended: Optional[threading.Event] = None

    def after_group_start(self, worker_group: WorkerGroup) -> None:
        self._manager = find_validation_manager(worker_group)

    @never_raises("tell which validations Ray Train waits for")
    def after_state(self, name: str) -> None:
        if self._has_ended is not None:
            self._has_ended.set()
            self._has_ended = None
        has_returned = self._mailbox.controller.read().has_returned
        if name == "SHUTTING_DOWN" and has_returned and self._manager is not None:
            self._has_ended = threading.Event()
            arguments = (self._mailbox, self._manager, self._has_ended)
            threading.Thread(target=_look, args=arguments, name="railhead-validations", daemon=True).start()


@never_raises("tell which validations Ray Train waits for")
def _look(mailbox: Mailbox, manager: Any, has_ended: threading.Event) -> None:
    while not has_ended.wait(LOOK_SECONDS):
        mailbox.controller.change(partial(replace, validations=describe_validations(manager)))
    mailbox.controller.change(partial(replace, validations=""))


def describe_validations(manager: Any) -> str:
    """Returns them as a part of a sentence; an empty string if Ray Train waits for none."""
    paths, waiting = read_validations(manager)
    if not paths and not waiting:
        return ""
    names = ", ".join(redact(PurePosixPath(path).name)[:NAME_CHARS] for path in paths)
    words = "a validation"
    if names:
        words = f"the validation of {names}"
    if waiting:
        words = f"{words} ({waiting} more to be done after it)"
    return words
