"""A loop with Accelerate: both ranks save on the step of the notice, and resume from it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.training.ranks import Rank, record_progress, run_ranks

STEPS = 4
ACCUMULATED = 2


def train(rank: int, folder: str, notified_at: int, resume_from: str, every: float | None = None) -> Any:
    """The reports, the steps of `progress` with their totals, and the weight at each of these steps."""
    import torch
    from accelerate import Accelerator

    from railhead.training.accelerate import TrainJob

    me = Rank(folder, checkpoint=resume_from)
    progress = record_progress()

    class Steps:
        done = 0

        def state_dict(self) -> dict[str, Any]:
            return {"done": self.done}

        def load_state_dict(self, state: dict[str, Any]) -> None:
            self.done = state["done"]

    accelerator, steps = Accelerator(cpu=True, gradient_accumulation_steps=ACCUMULATED), Steps()
    layer = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.ones_(layer.weight)
    model, optimizer = accelerator.prepare(layer, torch.optim.SGD(layer.parameters(), lr=0.1))
    accelerator.register_for_checkpointing(steps)
    job = TrainJob(accelerator, every)
    assert job.load() == bool(resume_from)
    weights = list[float]()
    for batch in range(ACCUMULATED * steps.done, ACCUMULATED * STEPS):
        if batch // ACCUMULATED + 1 == notified_at and rank == 1:
            me.notify(deadline=1_000, ranks=[0, 1])
        with accelerator.accumulate(model):
            accelerator.backward(model(torch.ones(1, 1)).sum())
            optimizer.step()
            optimizer.zero_grad()
        steps.done += accelerator.sync_gradients
        if accelerator.sync_gradients:
            weights.append(round(float(layer.weight), 3))
        if job.step(steps.done, total=STEPS, tokens=steps.done * 10):
            job.save({"step": steps.done})
    return me.finish_uploads(), progress, weights


@pytest.mark.slow  # test_checkpoints has the decision, and test_transformers the same with a real Trainer
def test_a_notice_to_one_rank_makes_both_save_on_that_step(tmp_path: Path) -> None:
    (reports, progress, weights), other = run_ranks(2, train, tmp_path, str(tmp_path), 3, "")
    assert (reports, progress, weights) == other
    assert progress == [(step, STEPS, step * 10) for step in (1, 2, 3, 4)]
    [[metrics, checkpoint]] = reports
    assert metrics == {"step": 3}
    assert {"random_states_0.pkl", "random_states_1.pkl"} <= {path.name for path in Path(checkpoint).iterdir()}
    for reports, progress, resumed in run_ranks(2, train, tmp_path, str(tmp_path), 0, checkpoint):
        assert (reports, progress, resumed) == ([], [(4, STEPS, 40)], weights[3:])


@pytest.mark.slow  # it imports Accelerate
def test_outside_of_a_job_nothing_is_saved_or_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    from railhead.driver.ray.train_context import NOTICES
    from railhead.training.accelerate import TrainJob

    monkeypatch.setattr(NOTICES, "are_watched", False)  # tests of ranks in this process may have begun to
    accelerator: Any = SimpleNamespace(sync_gradients=True)  # with nothing to save or load
    job = TrainJob(accelerator)
    assert not job.load() and not job.step(1, total=2)
    job.save({"loss": 1.0})


@pytest.mark.slow  # test_checkpoints has the decision
def test_saves_that_are_due_are_made_on_each_step(tmp_path: Path) -> None:
    """Each step is a look of the ranks at each other, and each look finds a save due."""
    (reports, *_), _ = run_ranks(2, train, tmp_path, str(tmp_path), 0, "", 1e-9)
    assert [metrics["step"] for metrics, _ in reports] == list(range(1, STEPS + 1))
