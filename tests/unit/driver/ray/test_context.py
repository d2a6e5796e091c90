"""The checkpoint of spec.resumeFrom: on a worker, through its loop, and in the check before training."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest
from ray.train import Checkpoint
from ray.train.v2._internal.execution import context as ray_context

from railhead.driver.errors import JobRefused
from railhead.driver.rank.loop import mark_loop
from railhead.driver.ray.context import start_from_checkpoint
from railhead.driver.storage.acquire_run import check_resume_from


class Context:
    """The one attribute of Ray's context that we change."""

    def __init__(self, checkpoint: Checkpoint | None = None) -> None:
        self.checkpoint = checkpoint


@pytest.mark.parametrize("own", [None, "/runs/mine/c1"])
def test_offers_the_checkpoint_until_the_run_has_its_own(monkeypatch: pytest.MonkeyPatch, own: str | None) -> None:
    context = Context(Checkpoint(own) if own else None)
    monkeypatch.setattr(ray_context, "get_train_context", lambda: context)
    start_from_checkpoint("/runs/other/c7")
    assert context.checkpoint is not None and context.checkpoint.path == (own or "/runs/other/c7")


def test_does_not_call_ray_without_a_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_context, "get_train_context", lambda: pytest.fail("called"))
    start_from_checkpoint("")


def loop(config: Any) -> Any:
    return config


def test_a_users_loop_keeps_its_parameters() -> None:
    assert list(inspect.signature(mark_loop(loop, initial="/c")).parameters) == ["config"]
    assert list(inspect.signature(mark_loop(lambda: None, initial="/c")).parameters) == []


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
