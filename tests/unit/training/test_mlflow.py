"""`railhead.training.mlflow` with a stand-in for MLflow; tests/ray/test_trackers.py has the real one."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from railhead.contract.trackers import RUN_ID
from railhead.driver.rank import tracker_link
from railhead.driver.rank.tracker_link import Links, read_link

RUN = "digits-1c6f0c8e"


@dataclass
class StandIn:
    """As much of MLflow as is used: its runs, by id, with their tags."""

    uri: str = "http://user:pa55word@mlflow:5000/"
    runs: dict[str, dict[str, str]] = field(default_factory=dict)
    started: list[dict[str, Any]] = field(default_factory=list)
    searches: int = 0

    def get_tracking_uri(self) -> str:
        return self.uri

    def search_runs(
        self, *, filter_string: str, order_by: list[str], max_results: int, output_format: str
    ) -> list[Any]:
        self.searches += 1
        assert (order_by, max_results, output_format) == (["attributes.start_time ASC"], 1, "list")
        name, _, value = filter_string.partition(" = ")
        found = [id_ for id_, tags in self.runs.items() if tags.get(name.removeprefix("tags.")) == value.strip("'")]
        return [self._describe(id_) for id_ in found[:max_results]]

    def start_run(self, *, run_id: str | None, tags: dict[str, str], **others: Any) -> Any:
        self.started.append({"run_id": run_id, "tags": tags, **others})
        run_id = run_id or f"m{len(self.runs)}"
        self.runs.setdefault(run_id, {}).update(tags)
        return self._describe(run_id)

    def _describe(self, run_id: str) -> Any:
        return SimpleNamespace(info=SimpleNamespace(run_id=run_id, experiment_id="7"))


@pytest.fixture
def mlflow(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    stand_in: Any = StandIn()
    monkeypatch.setitem(sys.modules, "mlflow", stand_in)
    monkeypatch.delenv("MLFLOW_RUN_ID", raising=False)
    monkeypatch.delenv(RUN_ID, raising=False)
    monkeypatch.setattr(tracker_link, "LINKS", Links())
    sys.modules.pop("railhead.training.mlflow", None)
    yield stand_in
    sys.modules.pop("railhead.training.mlflow", None)


def start(**arguments: Any) -> Any:
    """Calls it in a process that has just imported it."""
    return importlib.import_module("railhead.training.mlflow").start_run(**arguments)


def be_rank(rank: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(RUN_ID, RUN)
    context = SimpleNamespace(get_world_rank=lambda: rank)
    monkeypatch.setattr("ray.train.get_context", lambda: context)


def test_each_attempt_continues_the_same_run(mlflow: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    be_rank(0, monkeypatch)
    first = start(tags={"a": "b"}, description="d")
    second = start(tags={"a": "c"})
    assert first.info.run_id == second.info.run_id
    assert mlflow.runs == {"m0": {"a": "c", "railhead_run": RUN}}
    assert [each["run_name"] for each in mlflow.started] == [RUN, None], "a user may have renamed the run meanwhile"
    assert [each["description"] for each in mlflow.started] == ["d", None]


def test_another_job_has_another_run(mlflow: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    be_rank(0, monkeypatch)
    start()
    monkeypatch.setenv(RUN_ID, "digits-2d7a1d9f")
    start(run_name="mine")
    assert len(mlflow.runs) == 2 and mlflow.started[1]["run_name"] == "mine"


def test_the_link_is_that_of_the_tracking_server_without_its_credentials(
    mlflow: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    be_rank(0, monkeypatch)
    start()
    assert read_link() == "http://mlflow:5000/#/experiments/7/runs/m0"
    start(ui_url="https://mlflow.example.com")
    assert read_link() == "https://mlflow.example.com/#/experiments/7/runs/m0"


def test_runs_in_files_have_no_link(mlflow: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    be_rank(0, monkeypatch)
    mlflow.uri = "sqlite:////mlflow.db"
    start()
    assert read_link() == ""


def test_a_run_that_the_job_names_goes_first(mlflow: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    be_rank(0, monkeypatch)
    monkeypatch.setenv("MLFLOW_RUN_ID", "theirs")
    start()
    assert mlflow.started[0]["run_id"] is None and mlflow.started[0]["run_name"] is None, "MLflow reads the variable"
    assert (mlflow.searches, mlflow.started[0]["tags"]) == (0, {})


def test_outside_of_a_job_it_is_a_plain_start(mlflow: StandIn) -> None:
    start(run_name="mine", tags={"a": "b"}, log_system_metrics=True)
    assert mlflow.searches == 0
    plain = {"run_id": None, "run_name": "mine", "tags": {"a": "b"}, "description": None, "log_system_metrics": True}
    assert mlflow.started == [plain]


def test_another_rank_is_told_that_it_would_begin_a_second_run(
    mlflow: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    be_rank(2, monkeypatch)
    with pytest.raises(RuntimeError, match="this is rank 2; call it on rank 0 only"):
        start()
    assert mlflow.started == []
