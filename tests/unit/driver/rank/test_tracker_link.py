"""Where a tracker shows the run, as a rank learns it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from railhead import training
from railhead.driver.rank import steps, tracker_link
from railhead.driver.rank.steps import read_beat, reporting
from railhead.driver.rank.tracker_link import Links, clean_link, read_link

PAGE = "https://wandb.ai/team/digits/runs/digits-1c6f0c8e"
OTHER = "https://mlflow.example.com/#/experiments/1/runs/2"


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(tracker_link, "LINKS", Links())
    monkeypatch.setattr(steps, "STEPS", steps.RankProgress())
    clean_link.cache_clear()
    yield
    clean_link.cache_clear()


def activate(monkeypatch: pytest.MonkeyPatch, run: object) -> None:
    """Makes this W&B's active run."""
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(run=run))


def make_run(url: object = PAGE, *, offline: bool = False) -> Any:
    return SimpleNamespace(url=url, offline=offline)


def test_without_a_tracker_there_is_no_link_and_nothing_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "wandb", raising=False)
    assert read_link() == "" and "wandb" not in sys.modules


def test_the_active_run_of_wandb_has_the_link(monkeypatch: pytest.MonkeyPatch) -> None:
    activate(monkeypatch, make_run())
    assert read_beat().tracker_url == PAGE


def test_the_link_of_a_run_that_was_active_in_a_report_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    activate(monkeypatch, make_run())
    with reporting():
        activate(monkeypatch, None)
    assert read_link() == PAGE


@pytest.mark.parametrize(
    "run", [None, make_run(offline=True), make_run(None), make_run(7), make_run("javascript:1"), object()]
)
def test_a_run_without_a_page_has_none(run: object, monkeypatch: pytest.MonkeyPatch) -> None:
    activate(monkeypatch, run)
    assert read_link() == ""


def test_a_module_of_this_name_that_is_not_wandb_does_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", object())
    assert read_link() == ""


def test_what_training_code_tells_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    activate(monkeypatch, make_run())
    training.link_tracker(OTHER)
    assert read_link() == OTHER
    training.link_tracker("not a link")
    assert read_link() == OTHER


def test_a_link_must_be_a_text() -> None:
    url: Any = None
    with pytest.raises(TypeError, match="url must be a text, not None"):
        training.link_tracker(url)


@pytest.mark.parametrize(
    ("told", "shown"),
    [
        ("https://user:pa55word@mlflow/#/runs/1", "https://mlflow/#/runs/1"),
        (f"{PAGE}?apiKey=0f1e2d", PAGE),
        ("https://mlflow/runs/1?key=s3cr3t-0123", ""),
        ("ftp://mlflow/runs/1", ""),
    ],
)
def test_a_link_shows_no_credential(told: str, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "s3cr3t-0123")
    training.link_tracker(told)
    assert read_link() == shown
