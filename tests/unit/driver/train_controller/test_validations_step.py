"""The driver learns which validations Ray Train waits for after training."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from railhead.driver.mailbox.mailbox import Mailbox
from railhead.driver.train_controller import validations_step
from railhead.driver.train_controller.validations_step import ValidationsStep, describe_validations
from tests.unit.driver.mailboxes import tell
from tests.waiting import wait_until


class ValidationManager:
    """As Ray's, which is found by the name of its class."""

    def __init__(self, *running: Any, waiting: int = 0) -> None:
        self._pending_validations = OrderedDict(enumerate(running))
        self._training_report_queue = [None] * waiting


def checkpoint(name: str) -> Any:
    return SimpleNamespace(path=f"/runs/digits/{name}")


@pytest.mark.parametrize(
    ("manager", "words"),
    [
        (object(), ""),
        (ValidationManager(), ""),
        (ValidationManager(checkpoint("a")), "the validation of a"),
        (ValidationManager(SimpleNamespace(checkpoint=checkpoint("a"))), "the validation of a"),
        (ValidationManager(checkpoint("a"), waiting=2), "the validation of a (2 more to be done after it)"),
        (ValidationManager(checkpoint("a"), checkpoint("b")), "the validation of a, b"),
        (ValidationManager(waiting=1), "a validation (1 more to be done after it)"),
    ],
)
def test_describes_what_the_manager_waits_for(manager: Any, words: str) -> None:
    assert describe_validations(manager) == words


def test_tells_it_from_the_end_of_training_to_the_final_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validations_step, "LOOK_SECONDS", 0.01)
    mailbox, manager = Mailbox(tmp_path), ValidationManager(checkpoint("a"))
    step = ValidationsStep(mailbox)
    group: Any = SimpleNamespace(_callbacks=[object(), manager])
    step.after_group_start(group)
    step.after_state("RUNNING")
    tell(mailbox.controller, has_returned=True)
    step.after_state("SHUTTING_DOWN")
    wait_until("what the driver reads", lambda: mailbox.controller.read().validations == "the validation of a")
    manager._pending_validations.clear()
    wait_until("what the driver reads", lambda: mailbox.controller.read().validations == "")
    manager._pending_validations[7] = checkpoint("b")
    wait_until("what the driver reads", lambda: mailbox.controller.read().validations == "the validation of b")
    step.after_state("FINISHED")
    wait_until("what the driver reads", lambda: mailbox.controller.read().validations == "")


@pytest.mark.parametrize(("has_returned", "callbacks"), [(False, [ValidationManager(checkpoint("a"))]), (True, [])])
def test_a_failed_run_or_one_without_validations_starts_no_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_returned: bool, callbacks: list[Any]
) -> None:
    monkeypatch.setattr("threading.Thread", lambda **_: pytest.fail("a thread"))
    mailbox = Mailbox(tmp_path)
    step = ValidationsStep(mailbox)
    group: Any = SimpleNamespace(_callbacks=callbacks)
    step.after_group_start(group)
    tell(mailbox.controller, has_returned=has_returned)
    step.after_state("SHUTTING_DOWN")
