"""The checkpoint of spec.resumeFrom, on a worker, through its loop, and in the check before training; and whether the
function has read the notice of the end, however it calls Ray's public function."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest
from ray.train import Checkpoint, get_preemption_info
from ray.train.v2._internal.execution import context as ray_context
from ray.train.v2._internal.execution import train_fn_utils
from ray.train.v2._internal.execution.train_fn_utils import DistributedTrainFnUtils, TrainFnUtils

from railhead.driver.fit.acquire_run import check_resume_from
from railhead.driver.messages.attempt_errors import JobRefused
from railhead.driver.rank.run_rank import mark_loop
from railhead.driver.ray import train_context
from railhead.driver.ray.train_context import NOTICE, start_from_checkpoint


class Context:
    """The one attribute of Ray's context that we change."""

    def __init__(self, checkpoint: Checkpoint | None = None) -> None:
        self.checkpoint = checkpoint


@pytest.mark.parametrize("own", [None, "/runs/mine/c1"])
def test_offers_the_checkpoint_until_the_run_has_its_own(monkeypatch: pytest.MonkeyPatch, own: str | None) -> None:
    ours = Context(Checkpoint(own) if own else None)
    monkeypatch.setattr(ray_context, "get_train_context", lambda: ours)
    start_from_checkpoint("/runs/other/c7")
    assert ours.checkpoint is not None and ours.checkpoint.path == (own or "/runs/other/c7")


def test_does_not_call_ray_without_a_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_context, "get_train_context", lambda: pytest.fail("called"))
    start_from_checkpoint("")


def loop(config: Any) -> Any:
    return config


def test_a_users_loop_keeps_its_parameters() -> None:
    assert list(inspect.signature(mark_loop(loop, resume_from="/c")).parameters) == ["config"]
    assert list(inspect.signature(mark_loop(lambda: None, resume_from="/c")).parameters) == []


def test_rejects_a_missing_checkpoint_before_training(tmp_path: Path) -> None:
    for folder in ("absent", "empty"):
        (tmp_path / "empty").mkdir(exist_ok=True)
        with pytest.raises(
            JobRefused, match=r"spec\.resumeFrom .*: there is no checkpoint: in the head pod the folder is "
        ):
            check_resume_from(str(tmp_path / folder), warn=print)
    (tmp_path / "empty" / "weights").write_text("w")
    check_resume_from(str(tmp_path / "empty"), warn=print)


def test_rejects_an_unreadable_uri_with_its_field(tmp_path: Path) -> None:
    with pytest.raises(
        JobRefused, match=r"^spec\.resumeFrom nonsense://b/c cannot be read: |^spec\.resumeFrom nonsense"
    ):
        check_resume_from("nonsense://b/c", warn=print)


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train_context, "NOTICES", train_context.Notices())
    monkeypatch.setattr(train_fn_utils, "_train_fn_utils", DistributedTrainFnUtils())


def test_contract_rays_function_calls_the_watched_method_and_the_first_notice_is_recorded(
    monkeypatch: pytest.MonkeyPatch, watched: None
) -> None:
    notices: list[object] = [None, "leaving", None]
    monkeypatch.setattr(DistributedTrainFnUtils, NOTICE, lambda self: notices.pop(0))
    train_context.watch_notices()
    train_context.watch_notices()
    read = []
    for expected in (None, "leaving", None):
        assert get_preemption_info() == expected
        read.append(train_context.NOTICES.was_read)
    assert read == [False, True, True]


def test_an_older_ray_has_nothing_to_watch(monkeypatch: pytest.MonkeyPatch, watched: None) -> None:
    for each in (DistributedTrainFnUtils, TrainFnUtils):
        monkeypatch.delattr(each, NOTICE)
    train_context.watch_notices()
    assert not hasattr(DistributedTrainFnUtils, NOTICE)
