"""Which kept checkpoint is the best, and that we read Ray's own checkpoint manager correctly."""

from __future__ import annotations

import asyncio
import json
import math
import os
import types
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ray.train import Checkpoint, CheckpointConfig
from ray.train._internal.checkpoint_manager import _CheckpointManager
from ray.train._internal.session import _TrainingResult
from ray.train.v2._internal.execution.checkpoint.checkpoint_manager import CheckpointManager
from ray.train.v2._internal.execution.storage import StorageContext
from ray.train.v2._internal.execution.training_report import _TrainingReport

from railhead.contract import environment as e
from railhead.contract.report import NO_CHECKPOINT, RunWarning
from railhead.contract.report import CommittedCheckpoint as CommittedCheckpoint
from railhead.driver.container.run_context import RunContext
from railhead.driver.mailbox.mailbox import Mailbox
from railhead.driver.mailbox.progress import parse_known
from railhead.driver.ray.checkpoint_manager import Ranking, find_manager, read_ranking, repair_scores
from railhead.driver.ray.steps_callback import StepsCallback
from railhead.driver.ray.train_context import TIMES
from railhead.driver.train_controller.progress_step import ProgressStep, choose_best, find_score
from railhead.driver.train_controller.worker_group import Group
from tests.unit.driver.mailboxes import tell

# Ray's manager writes its snapshot with pydantic's deprecated API.
pytestmark = pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince20")


RUN_URI = "s3://b/r?region=x"


def best_of(order: str, *kept: tuple[str, Mapping[str, Any]]) -> str:
    commits = {name: CommittedCheckpoint(name, index, "t", attempt=1) for index, (name, _) in enumerate(kept)}
    return choose_best(Ranking("loss", order, kept), commits).uri


@pytest.mark.parametrize(
    ("metrics", "score"),
    [
        ({"loss": 1}, 1.0),
        ({"loss": numpy.float32(0.5)}, 0.5),
        ({"loss": math.inf}, math.inf),
        ({"loss": math.nan}, None),
        ({"loss": "low"}, None),
        ({"loss": None}, None),
        ({"accuracy": 1}, None),
        ({"loss": {"a": 1}}, None),
    ],
)
def test_a_score_is_a_number(metrics: dict[str, Any], score: float | None) -> None:
    assert find_score(metrics, "loss") == score


def test_a_nested_metric_is_named_as_in_ray() -> None:
    metrics = {"eval": {"loss": 2.0, "a/b": {"c": 3.0}}, "eval/other": 4.0}
    assert find_score(metrics, "eval/loss") == 2.0
    assert find_score(metrics, "eval/a/b/c") == 3.0
    assert find_score(metrics, "eval/other") == 4.0
    assert find_score(metrics, "eval") is None


def test_the_later_of_equal_scores_wins_and_one_without_a_score_never() -> None:
    kept: list[tuple[str, dict[str, Any]]] = [
        ("a", {"loss": 2}),
        ("b", {"loss": 2}),
        ("c", {"loss": math.nan}),
        ("d", {}),
    ]
    assert best_of("min", *kept) == best_of("max", *kept) == "b"
    assert best_of("min", ("a", {}), ("b", {"loss": math.nan})) == ""


@given(
    st.sampled_from(["min", "max"]),
    st.lists(st.fixed_dictionaries({}, optional={"loss": st.floats() | st.integers(-3, 3)}), max_size=8),
)
def test_no_kept_checkpoint_is_better_than_the_best(order: str, all_metrics: list[dict[str, Any]]) -> None:
    kept = [(f"c{index}", metrics) for index, metrics in enumerate(all_metrics)]
    scores = {name: score for name, metrics in kept if (score := find_score(metrics, "loss")) is not None}
    best = best_of(order, *kept)
    assert bool(best) == bool(scores)
    if best:
        assert scores[best] == (min if order == "min" else max)(scores.values())


def test_skips_a_checkpoint_without_a_known_commit() -> None:
    ranking = Ranking("loss", "min", (("lost", {"loss": 1}), ("told", {"loss": 2})))
    known = parse_known('[{"name": "told", "run": "r", "index": 4, "time": "then", "attempt": 2}]', run_uri=RUN_URI)
    best = choose_best(ranking, known)
    assert best == CommittedCheckpoint("s3://b/r/told?region=x", 4, "then", {"loss": "2"}, 2)


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", "7", "[[]]", "nonsense", '[{"name": "a"}]', '[{"name": "a", "index": "x"}]']
)
def test_ignores_invalid_known_checkpoints(text: str) -> None:
    assert parse_known(text, run_uri="/r") == {}


class Run:
    """A real checkpoint manager on a folder, and our callback after it, as Ray's controller has them."""

    def __init__(self, folder: Path, **config: Any) -> None:
        storage = StorageContext(storage_path=str(folder), experiment_dir_name="r")
        self.manager = CheckpointManager(CheckpointConfig(**config), storage)
        self.storage = storage
        self.group = Group()
        step = ProgressStep(self.group, Mailbox(Path(os.environ[e.TEMP])), RunContext.read())
        self.callback = StepsCallback([self.group, step])
        metadata = types.SimpleNamespace(node_id="n", pid=1, node_ip="10.0.0.2", hostname="w")
        group: Any = types.SimpleNamespace(
            _callbacks=[object(), self.manager], get_workers=lambda: [types.SimpleNamespace(metadata=metadata)]
        )
        assert find_manager(group) is self.manager
        self._ray_group = group
        self.start_group()

    def start_group(self) -> None:
        self.callback.after_worker_group_start(self._ray_group)

    def commit(self, name: str, *, times: tuple[float, float] | None = None, **metrics: Any) -> None:
        path = Path(self.storage.build_checkpoint_path_from_name(name))
        path.mkdir(parents=True)
        checkpoint = Checkpoint(path=str(path), filesystem=self.storage.storage_filesystem)
        if times is not None:
            setattr(checkpoint, TIMES, times)
        report = _TrainingReport(checkpoint, metrics, False)  # the third is about validation, and its name changes

        async def run() -> None:
            self.manager.after_report(report, [metrics])
            self.callback.after_report(report, [metrics])

        asyncio.run(run())


@pytest.fixture
def attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Prepares one attempt's environment; the result reads what the callback has reported."""

    def prepare(*, number: int = 1, index: int = -1, known: Sequence[dict[str, Any]] = ()) -> Any:
        folder = tmp_path / f"temp-{number}"
        folder.mkdir()
        monkeypatch.setenv(e.TEMP, str(folder))
        monkeypatch.setenv(e.ATTEMPT, str(number))
        monkeypatch.setenv(e.CHECKPOINT_INDEX, str(index))
        monkeypatch.setenv(e.KNOWN_CHECKPOINTS, json.dumps(known))
        monkeypatch.setenv("RAILHEAD_RUN", "")
        RunContext(str(tmp_path / "runs" / "r")).write()
        return lambda: asdict(Mailbox(folder).controller.read().progress)

    return prepare


CONFIG = {"checkpoint_score_attribute": "loss", "checkpoint_score_order": "min", "num_to_keep": 2}


def test_reports_the_best_checkpoint_of_all_attempts(tmp_path: Path, attempt: Any) -> None:
    read = attempt()
    run = Run(tmp_path / "runs", **CONFIG)
    assert read()["best_checkpoint"] == asdict(NO_CHECKPOINT)
    for name, loss in (("c0", 3.0), ("deep/c1", 1.0), ("c2", 2.0), ("c3", math.nan)):
        run.commit(name, loss=loss)
    best = read()["best_checkpoint"]
    assert (best["uri"], best["index"], best["attempt"]) == (str(tmp_path / "runs/r/deep/c1"), 1, 1)
    assert read()["checkpoint"]["index"] == 3
    known = [
        {"name": name, "run": "r", "index": index, "time": best["time"], "attempt": 1}
        for name, index in (("deep/c1", 1), ("c3", 3))
    ]
    read = attempt(number=2, index=3, known=known)
    run = Run(tmp_path / "runs", **CONFIG)
    assert read()["best_checkpoint"] == best
    run.commit("c4", loss=5.0)
    assert read()["best_checkpoint"] == best
    run.commit("c5", loss=0.5)
    assert read()["best_checkpoint"]["index"] == 5 and read()["best_checkpoint"]["attempt"] == 2


def test_commit_numbers_continue_from_earlier_attempts(tmp_path: Path, attempt: Any) -> None:
    read = attempt(number=2, index=4, known=[{"name": "c4", "run": "r", "index": 4, "time": "t", "attempt": 1}])
    run = Run(tmp_path / "runs")
    found = []
    for name in ("c5", "c6"):
        run.commit(name, loss=1)
        found.append((read()["checkpoint"]["index"], read()["checkpoint"]["metrics"], read()["reports"]))
    assert found == [(5, {"loss": "1"}, 1), (6, {"loss": "1"}, 2)]


def test_a_commit_brings_the_times_of_rank_0_and_a_new_group_begins_without(tmp_path: Path, attempt: Any) -> None:
    read = attempt()
    run = Run(tmp_path / "runs")
    run.commit("c0", times=(9.0, 1.5))
    assert read()["times"] == {"blocked": 9.0, "trained": 1.5}
    run.start_group()
    assert read()["times"] == {"blocked": 0.0, "trained": 0.0}


def test_drops_a_best_checkpoint_that_ray_no_longer_has(tmp_path: Path, attempt: Any) -> None:
    read = attempt(number=2, index=3, known=[{"name": "gone", "run": "r", "index": 1, "time": "t", "attempt": 1}])
    Run(tmp_path / "runs", **CONFIG)
    assert read()["best_checkpoint"] == asdict(NO_CHECKPOINT)


def test_the_next_attempt_reports_an_unreported_commit(tmp_path: Path, attempt: Any) -> None:
    attempt()
    run = Run(tmp_path / "runs", **CONFIG)
    for name, loss in (("c0", 3.0), ("c1", 1.0)):
        run.commit(name, loss=loss)
    known = [{"name": "c0", "run": "r", "index": 0, "time": "t", "attempt": 1}]
    read = attempt(number=2, index=0, known=known)
    run = Run(tmp_path / "runs", **CONFIG)
    found = read()
    assert (found["checkpoint"]["uri"], found["checkpoint"]["index"]) == (str(tmp_path / "runs/r/c1"), 1)
    assert found["checkpoint"]["metrics"] == {"loss": "1"} and found["best_checkpoint"]["index"] == 1
    run.commit("c2", loss=2.0)
    assert read()["checkpoint"]["index"] == 2
    read = attempt(number=3, index=2, known=[*known, {"name": "c2", "run": "r", "index": 2, "time": "t", "attempt": 2}])
    Run(tmp_path / "runs", **CONFIG)
    assert read()["checkpoint"] is None, "a known commit is not reported again"


def test_reports_a_fallback_checkpoint_with_a_new_index(tmp_path: Path, attempt: Any) -> None:
    attempt()
    run = Run(tmp_path / "runs", **CONFIG)
    run.commit("c0", loss=1.0)
    known = [
        {"name": name, "run": "r", "index": index, "time": "t", "attempt": 1} for name, index in (("c0", 0), ("c1", 1))
    ]
    read = attempt(number=2, index=1, known=known)  # c1 was lost
    run = Run(tmp_path / "runs", **CONFIG)
    found = read()
    assert (found["checkpoint"]["uri"], found["checkpoint"]["index"]) == (str(tmp_path / "runs/r/c0"), 2)
    assert found["best_checkpoint"]["index"] == 2
    run.commit("c2", loss=2.0)
    assert read()["checkpoint"]["index"] == 3


def test_a_run_of_an_earlier_fit_does_not_become_the_newest_again(tmp_path: Path, attempt: Any) -> None:
    """A script calls fit() for two runs, and loses its head in the second one: the first one finds all done."""
    attempt()
    run = Run(tmp_path / "runs", **CONFIG)
    for name, loss in (("c0", 1.0), ("c1", 2.0)):
        run.commit(name, loss=loss)
    known = [{"name": "c0", "run": "r", "index": 0, "time": "t", "attempt": 1}]
    newest = {"name": "c1", "run": "r-fit-2", "index": 3, "time": "t", "attempt": 1}
    read = attempt(number=2, index=3, known=[*known, newest])
    Run(tmp_path / "runs", **CONFIG)
    assert read()["checkpoint"] is None and read()["best_checkpoint"]["index"] == 0


def test_the_runs_folder_is_named_once_all_pods_are_known_to_see_it(tmp_path: Path, attempt: Any) -> None:
    """A path that is in one pod only ends the run before it trains."""
    read = attempt()
    run = Run(tmp_path / "runs")
    for name in ("INITIALIZING", "SCHEDULING"):
        run.callback.after_controller_state_update(None, ray_state(name))
    assert read()["state"] == "SCHEDULING" and read()["run_uri"] == ""
    run.callback.after_controller_state_update(None, ray_state("RUNNING"))
    assert read()["run_uri"] == str(tmp_path / "runs" / "r")


def ray_state(name: str) -> Any:
    return types.SimpleNamespace(_state_type=types.SimpleNamespace(state_name=name))


def test_the_first_attempt_does_not_report_an_earlier_jobs_checkpoint(tmp_path: Path, attempt: Any) -> None:
    attempt()
    Run(tmp_path / "runs").commit("c0", loss=1.0)
    (tmp_path / "temp-1").rename(tmp_path / "earlier")
    read = attempt()
    Run(tmp_path / "runs")
    assert read()["checkpoint"] is None


def test_reports_no_best_checkpoint_without_an_attribute(tmp_path: Path, attempt: Any) -> None:
    read = attempt()
    run = Run(tmp_path / "runs")
    run.commit("c0", loss=1.0)
    assert read()["best_checkpoint"] is None and read()["commits"] == 1


def test_counts_metrics_of_a_validation_after_the_last_report(tmp_path: Path, attempt: Any) -> None:
    read = attempt()
    run = Run(tmp_path / "runs", **CONFIG)
    for name, loss in (("c0", 1.0), ("c1", 2.0)):
        run.commit(name, loss=loss)
    assert read()["best_checkpoint"]["index"] == 0
    for result in run.manager._checkpoint_results:  # as update_checkpoints_with_validation_result does
        result.metrics.update({"loss": 0.5} if result.checkpoint.path.endswith("c1") else {})
    run.callback.after_controller_finish(None)
    assert (read()["best_checkpoint"]["index"], read()["best_checkpoint"]["metrics"]) == (1, {"loss": "0.5"})


def test_a_checkpoint_without_a_score_ranks_last_and_is_logged_once(
    tmp_path: Path, attempt: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ray alone would delete c0 in favor of the others."""
    read = attempt()
    run = Run(tmp_path / "runs", **CONFIG)
    for name, metrics in (("c0", {"loss": 1.0}), ("c1", {"accuracy": 1.0}), ("c2", {"loss": "low"})):
        run.commit(name, **metrics)
    ranking = read_ranking(run.manager)
    assert ranking is not None
    assert [name for name, _ in ranking.kept] == ["c2", "c0"]
    assert read()["best_checkpoint"]["index"] == 0
    output = capsys.readouterr().out
    assert output.count("run.checkpoint.scoreAttribute") == 1
    assert "c1 was reported without a number in 'loss'" in output


@given(st.sampled_from(["min", "max"]), st.floats(), st.floats())
def test_contract_scores_numbers_like_ray(order: str, one: float, other: float) -> None:
    manager = _CheckpointManager(CheckpointConfig(checkpoint_score_attribute="loss", checkpoint_score_order=order))
    results = [_TrainingResult(checkpoint=None, metrics={"loss": value}) for value in (one, other)]
    expected = [manager._get_checkpoint_score(result) for result in results]
    repair_scores(manager, find_score)
    assert [manager._get_checkpoint_score(result) for result in results] == expected


def test_a_commit_clears_the_checkpoint_warning(tmp_path: Path, attempt: Any) -> None:
    attempt()
    run = Run(tmp_path / "runs", **CONFIG)
    mailbox = Mailbox(tmp_path / "temp-1")
    tell(mailbox.controller, warning=RunWarning("CheckpointNotWritten", "no space"))
    report = _TrainingReport(None, {}, False)
    run.callback.after_report(report, [{"loss": 1.0}])
    assert mailbox.controller.read().warning is not None, (
        "a report without a checkpoint proves nothing about the storage"
    )
    run.commit("c0", loss=1.0)
    assert mailbox.controller.read().warning is None


def test_warns_once_of_a_name_that_repeats(
    tmp_path: Path, attempt: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    read = attempt()
    run = Run(tmp_path / "runs", num_to_keep=2)
    run.commit("c0")
    assert read()["warning"] is None
    run.group.repeated_name = "last"  # as the fence finds it
    for name in ("c1", "c2"):
        run.commit(name)
        warning = read()["warning"]
        assert warning["reason"] == "CheckpointNameRepeated" and "checkpoint_dir_name='last'" in warning["message"]
    assert capsys.readouterr().out.count(warning["message"]) == 1
