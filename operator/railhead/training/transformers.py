"""For `transformers.Trainer`: progress after each step, the time of each forward pass, which finds slow ranks, and one
more checkpoint before the run or a node ends.

Pass it as `Trainer(callbacks=[RayTrainReportCallback(), TrainJobCallback()])`.
"""

from __future__ import annotations

from typing import Any, Callable, Optional

from torch import nn
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from railhead import training
from railhead.contract.callbacks import ignore
from railhead.training._checkpoints import Agreement
from railhead.training._sections import mark_forward_passes

__all__ = ["TrainJobCallback"]


class TrainJobCallback(TrainerCallback):
    """Sets `control.should_save` on the same step of all ranks when a notice is new, once for each notice.

    The Trainer then saves as it does regularly, and Ray Train's RayTrainReportCallback reports that checkpoint; the
    order of the two callbacks is of no matter. An evaluation that is due on that step is left out, for the time may
    be short. Outside of a TrainJob it saves nothing.
    """

    def __init__(self) -> None:
        self._agreement = Agreement()
        self._end_marks: Callable[[], None] = ignore

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        model: Optional[nn.Module] = None,
        **kwargs: Any,
    ) -> None:
        if model is not None and not args.torch_compile:
            self._end_marks = mark_forward_passes(model)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self._end_marks()

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> TrainerControl:
        _show_progress(state)
        if self._agreement.is_time_to_save():
            control.should_save = True
            control.should_evaluate = False
        return control

    def on_prediction_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        _show_progress(state)  # a long evaluation is no hang


def _show_progress(state: TrainerState) -> None:
    tokens = state.num_input_tokens_seen or None
    training.progress(state.global_step, total=state.max_steps or None, tokens=tokens)
