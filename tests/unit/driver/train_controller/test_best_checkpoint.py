"""Which kept checkpoint is the best, and that Ray's own checkpoint manager is read right."""

from __future__ import annotations

import asyncio
import json
import math
import types
from collections.abc import Mapping, Sequence
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
from railhead.contract.checkpoint import Checkpoint as CommittedCheckpoint
from railhead.contract.report import RunWarning
from railhead.driver.reporting.commits import Commit, parse_known
from railhead.driver.reporting.spool import Spool
from railhead.driver.run_context import RunContext
from railhead.driver.train_controller.best_checkpoint import Ranking, find_best, find_score
from railhead.driver.train_controller.callback import ProgressCallback
from railhead.driver.train_controller.ray_checkpoints import find_manager, read_ranking, repair_scores

# Ray's manager writes its snapshot by pydantic's older words.
pytestmark = pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince20")


def best_of(order: str, *kept: tuple[str, Mapping[str, Any]]) -> str:
    commits = {name: Commit(index, "t", 1) for index, (name, _) in enumerate(kept)}
    best = find_best(Ranking("loss", order, kept), commits, run_uri="/runs/r")
    return best.uri.removeprefix("/runs/r/")


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


def test_the_later_one_of_equals_wins_and_what_has_no_score_never() -> None:
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


def test_a_checkpoint_whose_commit_nobody_told_of_is_passed_over() -> None:
    ranking = Ranking("loss", "min", (("lost", {"loss": 1}), ("told", {"loss": 2})))
    best = find_best(ranking, {"told": Commit(4, "then", 2)}, run_uri="s3://b/r?region=x")
    assert best == CommittedCheckpoint("s3://b/r/told?region=x", 4, "then", {"loss": "2"}, 2)


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", "7", "[[]]", "nonsense", '[{"name": "a"}]', '[{"name": "a", "index": "x"}]']
)
def test_a_word_of_earlier_attempts_that_makes_no_sense_is_none(text: str) -> None:
    assert parse_known(text) == {}


class Run:
    """A real checkpoint manager on a folder, and our callback after it, as Ray's controller has them."""

    def __init__(self, folder: Path, **config: Any) -> None:
        storage = StorageContext(storage_path=str(folder), experiment_dir_name="r")
        self.manager = CheckpointManager(CheckpointConfig(**config), storage)
        self.storage = storage
        self.callback = ProgressCallback()
        metadata = types.SimpleNamespace(node_id="n", pid=1)
        group = types.SimpleNamespace(
            _callbacks=[object(), self.manager], get_workers=lambda: [types.SimpleNamespace(metadata=metadata)]
        )
        assert find_manager(group) is self.manager
        self.callback.after_worker_group_start(group)

    def commit(self, name: str, **metrics: Any) -> None:
        path = Path(self.storage.build_checkpoint_path_from_name(name))
        path.mkdir(parents=True)
        checkpoint = Checkpoint(path=str(path), filesystem=self.storage.storage_filesystem)
        report = _TrainingReport(checkpoint, metrics, False)  # the third is about validation, and its name changes

        async def run() -> None:
            self.manager.after_report(report, [metrics])
            self.callback.after_report(report, [metrics])

        asyncio.run(run())


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Prepares one attempt's environment; the answer reads what the callback has told."""

    def prepare(*, attempt: int = 1, index: int = -1, known: Sequence[dict[str, Any]] = ()) -> Any:
        folder = tmp_path / f"temp-{attempt}"
        folder.mkdir()
        monkeypatch.setenv(e.TEMP, str(folder))
        monkeypatch.setenv(e.ATTEMPT, str(attempt))
        monkeypatch.setenv(e.CHECKPOINT_INDEX, str(index))
        monkeypatch.setenv(e.KNOWN_CHECKPOINTS, json.dumps(known))
        monkeypatch.setenv("RAILHEAD_RUN", "")
        RunContext(str(tmp_path / "runs" / "r")).write()
        return lambda: Spool(folder).read()

    return prepare


CONFIG = {"checkpoint_score_attribute": "loss", "checkpoint_score_order": "min", "num_to_keep": 2}


def test_the_best_of_all_attempts_is_told(tmp_path: Path, told: Any) -> None:
    read = told()
    run = Run(tmp_path / "runs", **CONFIG)
    assert read()["best_checkpoint"] == {}
    for name, loss in (("c0", 3.0), ("deep/c1", 1.0), ("c2", 2.0), ("c3", math.nan)):
        run.commit(name, loss=loss)
    best = read()["best_checkpoint"]
    assert (best["uri"], best["index"], best["attempt"]) == (str(tmp_path / "runs/r/deep/c1"), 1, 1)
    assert read()["checkpoint"]["index"] == 3
    known = [
        {"name": name, "index": index, "time": best["time"], "attempt": 1}
        for name, index in (("deep/c1", 1), ("c3", 3))
    ]
    read = told(attempt=2, index=3, known=known)
    run = Run(tmp_path / "runs", **CONFIG)
    assert read()["best_checkpoint"] == best
    run.commit("c4", loss=5.0)
    assert read()["best_checkpoint"] == best
    run.commit("c5", loss=0.5)
    assert read()["best_checkpoint"]["index"] == 5 and read()["best_checkpoint"]["attempt"] == 2


def test_a_best_one_that_ray_no_longer_knows_is_dropped(tmp_path: Path, told: Any) -> None:
    read = told(attempt=2, index=3, known=[{"name": "gone", "index": 1, "time": "t", "attempt": 1}])
    Run(tmp_path / "runs", **CONFIG)
    assert read()["best_checkpoint"] == {}


def test_a_commit_that_its_attempt_could_not_tell_of_is_told_by_the_next_one(tmp_path: Path, told: Any) -> None:
    told()
    run = Run(tmp_path / "runs", **CONFIG)
    for name, loss in (("c0", 3.0), ("c1", 1.0)):
        run.commit(name, loss=loss)
    known = [{"name": "c0", "index": 0, "time": "t", "attempt": 1}]
    read = told(attempt=2, index=0, known=known)
    run = Run(tmp_path / "runs", **CONFIG)
    found = read()
    assert (found["checkpoint"]["uri"], found["checkpoint"]["index"]) == (str(tmp_path / "runs/r/c1"), 1)
    assert found["checkpoint"]["metrics"] == {"loss": "1"} and found["best_checkpoint"]["index"] == 1
    run.commit("c2", loss=2.0)
    assert read()["checkpoint"]["index"] == 2
    read = told(attempt=3, index=2, known=[*known, {"name": "c2", "index": 2, "time": "t", "attempt": 2}])
    Run(tmp_path / "runs", **CONFIG)
    assert read()["checkpoint"] is None, "what is known is not told again"


def test_a_checkpoint_that_the_run_fell_back_to_is_told_under_a_new_number(tmp_path: Path, told: Any) -> None:
    told()
    run = Run(tmp_path / "runs", **CONFIG)
    run.commit("c0", loss=1.0)
    known = [{"name": name, "index": index, "time": "t", "attempt": 1} for name, index in (("c0", 0), ("c1", 1))]
    read = told(attempt=2, index=1, known=known)  # c1 was lost
    run = Run(tmp_path / "runs", **CONFIG)
    found = read()
    assert (found["checkpoint"]["uri"], found["checkpoint"]["index"]) == (str(tmp_path / "runs/r/c0"), 2)
    assert found["best_checkpoint"]["index"] == 2
    run.commit("c2", loss=2.0)
    assert read()["checkpoint"]["index"] == 3


def test_the_first_attempt_does_not_tell_of_an_earlier_jobs_checkpoint(tmp_path: Path, told: Any) -> None:
    told()
    Run(tmp_path / "runs").commit("c0", loss=1.0)
    (tmp_path / "temp-1").rename(tmp_path / "earlier")
    read = told()
    Run(tmp_path / "runs")
    assert read()["checkpoint"] is None


def test_without_an_attribute_there_is_no_best(tmp_path: Path, told: Any) -> None:
    read = told()
    run = Run(tmp_path / "runs")
    run.commit("c0", loss=1.0)
    assert read()["best_checkpoint"] is None and read()["commits"] == 1


def test_metrics_of_a_validation_that_ends_after_the_last_report_count(tmp_path: Path, told: Any) -> None:
    read = told()
    run = Run(tmp_path / "runs", **CONFIG)
    for name, loss in (("c0", 1.0), ("c1", 2.0)):
        run.commit(name, loss=loss)
    assert read()["best_checkpoint"]["index"] == 0
    for result in run.manager._checkpoint_results:  # as update_checkpoints_with_validation_result does
        result.metrics.update({"loss": 0.5} if result.checkpoint.path.endswith("c1") else {})
    run.callback.after_controller_finish(None)
    assert (read()["best_checkpoint"]["index"], read()["best_checkpoint"]["metrics"]) == (1, {"loss": "0.5"})


def test_a_checkpoint_without_a_score_ranks_behind_all_others_and_that_is_said_once(
    tmp_path: Path, told: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ray by itself would delete c0 for the others."""
    read = told()
    run = Run(tmp_path / "runs", **CONFIG)
    for name, metrics in (("c0", {"loss": 1.0}), ("c1", {"accuracy": 1.0}), ("c2", {"loss": "low"})):
        run.commit(name, **metrics)
    ranking = read_ranking(run.manager)
    assert ranking is not None
    assert [name for name, _ in ranking.kept] == ["c2", "c0"]
    assert read()["best_checkpoint"]["index"] == 0
    said = capsys.readouterr().out
    assert said.count("run.checkpoint.scoreAttribute") == 1
    assert "c1 was reported without a number in 'loss'" in said


@given(st.sampled_from(["min", "max"]), st.floats(), st.floats())
def test_contract_numbers_are_scored_as_ray_does(order: str, one: float, other: float) -> None:
    manager = _CheckpointManager(CheckpointConfig(checkpoint_score_attribute="loss", checkpoint_score_order=order))
    results = [_TrainingResult(checkpoint=None, metrics={"loss": value}) for value in (one, other)]
    wanted = [manager._get_checkpoint_score(result) for result in results]
    repair_scores(manager)
    assert [manager._get_checkpoint_score(result) for result in results] == wanted


def test_a_commit_ends_the_warning_that_none_was_possible(tmp_path: Path, told: Any) -> None:
    told()
    run = Run(tmp_path / "runs", **CONFIG)
    spool = Spool(tmp_path / "temp-1")
    spool.write_warning(RunWarning("CheckpointNotWritten", "no space"))
    report = _TrainingReport(None, {}, False)
    run.callback.after_report(report, [{"loss": 1.0}])
    assert spool.read_warning() is not None, "a report without a checkpoint says nothing of the storage"
    run.commit("c0", loss=1.0)
    assert spool.read_warning() is None
