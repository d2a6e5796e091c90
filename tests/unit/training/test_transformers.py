"""A notice that reaches one of two ranks makes transformers.Trainer save on both, and Ray's callback report it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tests.unit.training.ranks import Rank, record_progress, run_ranks

STEPS = 8


def train(rank: int, folder: str, notified_at: int, resume_from: str, every: float | None = None) -> Any:
    """The reports, the steps of `progress` with their totals, the evaluated steps, and the marked forward passes."""
    import torch
    import transformers
    from ray.train.huggingface.transformers import RayTrainReportCallback

    from railhead.driver.rank.steps import read_beat
    from railhead.training.transformers import TrainJobCallback

    me = Rank(folder, checkpoint=resume_from)
    progress = record_progress()
    evaluated = list[int]()

    class Watch(transformers.TrainerCallback):
        def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if state.global_step + 1 == notified_at and rank == 1:
                me.notify(deadline=1_000, ranks=[0, 1])

        def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            evaluated.append(state.global_step)

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)

        def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"loss": torch.nn.functional.mse_loss(self.layer(x), labels)}

    output = os.path.join(folder, f"output-{rank}")
    arguments = transformers.TrainingArguments(
        output_dir=output,
        max_steps=STEPS,
        per_device_train_batch_size=1,
        per_device_eval_batch_size=1,
        eval_strategy="steps",
        eval_steps=5,
        save_strategy="no",
        logging_steps=1,
        report_to="none",
        use_cpu=True,
        disable_tqdm=True,
    )
    rows = [{"x": torch.tensor([float(number)]), "labels": torch.tensor([1.0])} for number in range(6)]
    callbacks = [TrainJobCallback(every), RayTrainReportCallback(), Watch()]
    trainer = transformers.Trainer(Model(), arguments, train_dataset=rows, eval_dataset=rows, callbacks=callbacks)
    trainer.train(resume_from_checkpoint=os.path.join(resume_from, "checkpoint") if resume_from else None)
    reports = [(metrics["step"], path) for metrics, path in me.finish_uploads()]
    return reports, progress, evaluated, read_beat().sections


def test_a_notice_to_one_rank_makes_both_save_on_that_step(tmp_path: Path) -> None:
    (reports, progress, evaluated, sections), other = run_ranks(2, train, tmp_path, str(tmp_path), 5, "")
    assert reports == other[0] and len(reports) == 1
    evaluation = [(STEPS, STEPS, None)] * 3  # rows of each rank
    assert progress == other[1] == [(step, STEPS, None) for step in range(1, STEPS + 1)] + evaluation
    assert evaluated == [STEPS], "not on step 5, which has to save"
    assert sections == other[3] == STEPS, "without those of the evaluation"
    [[_, checkpoint]] = reports
    assert '"global_step": 5' in Path(checkpoint, "checkpoint", "trainer_state.json").read_text()
    assert {"rng_state_0.pth", "rng_state_1.pth"} <= {p.name for p in Path(checkpoint, "checkpoint").iterdir()}
    for reports, progress, _, _ in run_ranks(2, train, tmp_path, str(tmp_path), 0, checkpoint):
        assert (reports, [step for step, _, _ in progress]) == ([], [6, 7, 8, 8, 8, 8])


def test_saves_that_are_due_leave_out_no_evaluation(tmp_path: Path) -> None:
    """Each step is a look of the ranks at each other, and each look finds a save due."""
    (reports, _, evaluated, _), other = run_ranks(2, train, tmp_path, str(tmp_path), 0, "", 1e-9)
    assert reports == other[0] and [step for step, _ in reports] == list(range(1, STEPS + 1))
    assert evaluated == other[2] == [5, STEPS]
