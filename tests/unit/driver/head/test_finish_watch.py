"""For what Ray Train waits after training, and since when."""

from __future__ import annotations

from dataclasses import replace

import pytest

from railhead.contract.failure import Failure, FailureClass
from railhead.contract.report import Steps
from railhead.driver.head.finish_watch import LONGEST_LOOK_SECONDS, FinishWatch, find_wait
from railhead.driver.mailbox.heartbeat import Heartbeat
from railhead.driver.mailbox.progress import Progress
from railhead.driver.mailbox.values import FromController

TRAINING = Progress(state="RUNNING", is_training=True)
VALIDATING = FromController(has_returned=True, validations="the validation of checkpoint_1")
FAILED = Failure(FailureClass.APPLICATION, "TrainFunctionRaised", "")


def uploading(number: int) -> FromController:
    return FromController(TRAINING, heartbeat=Heartbeat(1, 3, 3, False, Steps(), last_uploads=number))


@pytest.mark.parametrize(
    ("fit", "words"),
    [
        (FromController(), ""),
        (FromController(TRAINING), ""),
        (uploading(0), ""),
        (uploading(1), "the upload of a checkpoint"),
        (uploading(3), "3 uploads of checkpoints"),
        (replace(uploading(1), progress=Progress(state="RESTARTING")), ""),
        (VALIDATING, "the validation of checkpoint_1"),
        (replace(VALIDATING, failure=FAILED), ""),
    ],
)
def test_finds_for_what_ray_train_waits(fit: FromController, words: str) -> None:
    assert find_wait(fit) == words


def test_a_wait_is_shown_with_its_beginning_once_it_has_lasted() -> None:
    watch = FinishWatch()
    for second in range(0, 200, 4):
        watch.update(VALIDATING, now=float(second), time=f"12:00 + {second}")
        assert bool(watch.text) == (second >= 32)
        assert watch.idle == second
    assert watch.text.endswith("Since 12:00 + 0, Ray Train waits for the validation of checkpoint_1.")
    watch.update(replace(VALIDATING, validations="the validation of checkpoint_2"), now=201.0, time="later")
    assert (watch.text, watch.idle, watch.is_waiting) == ("", 0.0, True)
    watch.update(FromController(), now=202.0, time="later")
    assert (watch.text, watch.is_waiting) == ("", False)


def test_a_pause_of_the_driver_does_not_count() -> None:
    watch = FinishWatch()
    watch.update(VALIDATING, now=0.0, time="")
    watch.update(VALIDATING, now=100_000.0, time="")
    assert watch.idle == LONGEST_LOOK_SECONDS
