"""What a script's RunConfig leaves unset, and the run of each of its calls of fit()."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.fs
import pytest
from ray.train import RunConfig, ScalingConfig
from ray.train.constants import DEFAULT_STORAGE_PATH
from ray.train.v2.api import config
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

from railhead.contract import environment as e
from railhead.contract.job_input import FILE
from railhead.driver.container.run_context import RunContext
from railhead.driver.mailbox.mailbox import Mailbox
from railhead.driver.messages.attempt_errors import JobRefused
from railhead.driver.script.watched_fit import complete_run_configs, watch_fit
from tests.ray.pods import make_job
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


def test_a_run_that_the_script_names_is_in_the_jobs_own_folder(in_script: Mailbox, tmp_path: Path) -> None:
    config = RunConfig(name="mine")
    runs = [fit(in_script, config), fit(in_script), fit(in_script, config), fit(in_script, RunConfig(name="mine"))]
    assert [run.run_uri for run in runs] == [
        f"{tmp_path}/{name}" for name in ("the-run/mine", "the-run-fit-2", "the-run/mine", "the-run/mine")
    ]
    assert (config.name, config.storage_path) == ("mine", f"{tmp_path}/the-run")
    assert not any(run.warning and run.warning.reason.endswith("Differs") for run in runs)


def become(folder: Path, **changes: Any) -> None:
    """The script is that of another job from now on."""
    job = make_job(**{"train_func": "", "entrypoint": ["python"], "run_name": "the-run", **changes})
    (folder / FILE).write_text(job.to_json())


def test_each_job_of_a_script_that_names_its_run_has_its_own(in_script: Mailbox, tmp_path: Path) -> None:
    found = []
    for number in range(3):
        become(tmp_path, uid=f"uid-{number}", run_name=f"job-{number}")
        found.append(fit(in_script, RunConfig(name="my-cnn")))
    assert [run.run_uri for run in found] == [f"{tmp_path}/job-{number}/my-cnn" for number in range(3)]
    assert [run.claim.split(".")[:2] for run in found] == [["000001", f"uid-{number}"] for number in range(3)]


@pytest.mark.parametrize("is_sharing", [False, True])
@pytest.mark.parametrize("name", ["../job-1", "../job-1/my-cnn"])
def test_no_name_leads_into_the_run_of_another_job(
    in_script: Mailbox, tmp_path: Path, name: str, is_sharing: bool
) -> None:
    become(tmp_path, uid="uid-1", run_name="job-1", name="one")
    fit(in_script)
    fit(in_script, RunConfig(name="my-cnn"))
    become(tmp_path, uid="uid-2", run_name="job-2", is_sharing_run=is_sharing)
    (tmp_path / "job-2").mkdir()  # the check of the storage has made it
    before = sorted(tmp_path.glob("job-1/**/*"))
    with pytest.raises(
        JobRefused, match=r"belongs to TrainJob default/one \(uid uid-1\), so this job has neither"
    ) as no:
        fit(in_script, RunConfig(name=name))
    assert no.value.failure.reason == "RunOfAnotherJob"
    assert sorted(tmp_path.glob("job-1/**/*")) == before


def test_jobs_share_the_runs_of_a_script_if_the_spec_names_one_run(in_script: Mailbox, tmp_path: Path) -> None:
    for uid in ("uid-1", "uid-2"):
        become(tmp_path, uid=uid, is_sharing_run=True)
        last = fit(in_script, RunConfig(name="my-cnn"))
    assert last.run_uri == f"{tmp_path}/the-run/my-cnn" and last.claim.startswith("000002.uid-2.")


def test_a_name_that_is_new_in_each_attempt_is_told(
    in_script: Mailbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def warns(name: str) -> bool:
        warning = fit(in_script, RunConfig(name=name)).warning
        in_script.script.change(lambda value: replace(value, fit=None))  # the next attempt
        return warning is not None and warning.reason == "RunNameDiffers"

    assert not warns("at-noon")
    monkeypatch.setenv(e.ATTEMPT, "2")
    assert not warns("at-one"), "no attempt has saved anything"
    monkeypatch.setenv(e.ATTEMPT, "3")
    monkeypatch.setenv(e.CHECKPOINT_INDEX, "0")
    assert warns("at-two") and not warns("at-noon") and not warns("")


def test_a_run_that_began_under_an_earlier_version_stays_where_it_is(
    in_script: Mailbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine" / "c0").mkdir(parents=True)
    (tmp_path / "mine" / "c0" / "weights").write_text("1")
    known = {"name": "c0", "run": "mine", "index": 0, "time": "t", "attempt": 1}
    monkeypatch.setenv(e.KNOWN_CHECKPOINTS, json.dumps([{**known, "folder": tmp_path.name}]))
    monkeypatch.setenv(e.ATTEMPT, "2")
    monkeypatch.setenv(e.CHECKPOINT_INDEX, "0")
    assert fit(in_script, RunConfig(name="mine")).resumed_from == f"{tmp_path}/mine/c0"
    assert fit(in_script, RunConfig(name="other")).run_uri == f"{tmp_path}/the-run/other"


def test_another_storage_path_stays(in_script: Mailbox, tmp_path: Path) -> None:
    fit(in_script)
    placed = fit(in_script, RunConfig(storage_path=str(tmp_path / "mine")))
    assert placed.run_uri == f"{tmp_path}/mine/the-run-fit-2" and placed.warning is not None
    assert placed.warning.reason == "StoragePathDiffers"
    local = RunConfig(storage_filesystem=pyarrow.fs.LocalFileSystem())
    assert local.storage_path == DEFAULT_STORAGE_PATH, "its path belongs to its file system"


@pytest.mark.parametrize("name", ["", "mine"])
def test_the_first_fit_begins_from_the_checkpoint_of_another_job(
    in_script: Mailbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "weights").write_text("1")
    monkeypatch.setenv(e.RESUME_FROM, str(other))
    begun: list[str] = []

    def mark(loop: Any, *, resume_from: str) -> Any:
        begun.append(resume_from)
        return loop

    monkeypatch.setattr("railhead.driver.fit.users_trainer.mark_loop", mark)
    runs = [fit(in_script, RunConfig(name=name)), fit(in_script), fit(in_script, RunConfig(name="other"))]
    assert begun == [str(other), "", ""] == [run.resumed_from for run in runs]


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
