"""What a script's RunConfig leaves unset, and the run of each of its calls of fit()."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow.fs
import pytest
from ray.train import RunConfig, ScalingConfig
from ray.train.constants import DEFAULT_STORAGE_PATH
from ray.train.v2.api import config
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

from railhead.contract import environment as e
from railhead.driver.errors import JobRefused
from railhead.driver.reporting.mailbox import Mailbox
from railhead.driver.run_context import RunContext
from railhead.driver.script.fit import complete_run_configs, watch_fit
from tests.unit.driver.mailboxes import tell

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def completed(in_script: Mailbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config.RunConfig, "__post_init__", config.RunConfig.__post_init__)  # taken back at the end
    complete_run_configs(config)


def fit(mailbox: Mailbox, run_config: RunConfig | None = None) -> RunContext:
    """The run that the next fit() of the script has."""

    def train(trainer: Any) -> RunContext:
        run = RunContext.read()
        tell(Mailbox(Path(os.environ[e.TEMP]), fit=run.fit).controller, has_returned=True)
        return run

    trainer = DataParallelTrainer(print, scaling_config=ScalingConfig(num_workers=2), run_config=run_config)
    run = watch_fit(trainer, train)
    assert isinstance(run, RunContext)
    return run


def test_what_is_unset_becomes_the_jobs_and_each_fit_has_a_run_of_its_own(in_script: Mailbox, tmp_path: Path) -> None:
    shared = RunConfig()
    runs = [fit(in_script), fit(in_script, shared), fit(in_script, RunConfig(name="")), fit(in_script, shared)]
    assert [run.run_uri for run in runs] == [
        f"{tmp_path}/{name}" for name in ("the-run", "the-run-fit-2", "the-run-fit-3", "the-run-fit-2")
    ]
    assert not any(run.warning and run.warning.reason.endswith("Differs") for run in runs)


def test_what_the_script_sets_stays(in_script: Mailbox, tmp_path: Path) -> None:
    named = fit(in_script, RunConfig(name="mine"))
    assert named.run_uri == f"{tmp_path}/mine" and named.warning is not None
    assert named.warning.reason == "RunNameDiffers"
    placed = fit(in_script, RunConfig(storage_path=str(tmp_path / "mine")))
    assert placed.run_uri == f"{tmp_path}/mine/the-run-fit-2" and placed.warning is not None
    assert placed.warning.reason == "StoragePathDiffers"
    local = RunConfig(storage_filesystem=pyarrow.fs.LocalFileSystem())
    assert local.storage_path == DEFAULT_STORAGE_PATH, "its path belongs to its file system"


def test_only_the_jobs_own_run_begins_from_the_checkpoint_of_another_job(
    in_script: Mailbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "weights").write_text("1")
    monkeypatch.setenv(e.RESUME_FROM, str(other))
    begun: list[str] = []

    def mark(loop: Any, *, resume_from: str) -> Any:
        begun.append(resume_from)
        return loop

    monkeypatch.setattr("railhead.driver.trainers.users_trainer.mark_loop", mark)
    fit(in_script), fit(in_script), fit(in_script, RunConfig(name="mine"))
    assert begun == [str(other), "", ""]


def test_the_checkpoints_of_one_run_are_not_missed_in_another(
    in_script: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The head was lost in the second fit(); then somebody deleted that run's folder."""
    known = [{"name": "c0", "run": "the-run-fit-2", "index": 4, "time": "t", "attempt": 1}]
    monkeypatch.setenv(e.KNOWN_CHECKPOINTS, json.dumps(known))
    monkeypatch.setenv(e.CHECKPOINT_INDEX, "4")
    assert fit(in_script).resumed_from == ""
    with pytest.raises(JobRefused, match="none of the 5 committed checkpoints is intact"):
        fit(in_script)
