"""For `transformers.Trainer`: progress after each step, the time of each forward pass, which finds slow ranks,
checkpoints that choose their time, and one more before the run or a node ends.

Pass it as `Trainer(callbacks=[RayTrainReportCallback(), TrainJobCallback()])`.
"""

from __future__ import annotations

import time
from typing import Any, Callable, Literal, Optional, Union

from torch import nn
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from railhead import training
from railhead.contract.callbacks import ignore
from railhead.training._checkpoints import Agreement
from railhead.training._sections import mark_forward_passes

__all__ = ["TrainJobCallback"]


class TrainJobCallback(TrainerCallback):
    """Sets `control.should_save` on the same step of all ranks when a save is due, and once for each new notice.

    `every`: also saves every so many seconds, or with "auto" as often as costs least, so that training waits in at
    most 1 % of its time. None: only before the run or a node ends.

    The Trainer then saves as it does regularly, and Ray Train's RayTrainReportCallback reports that checkpoint; the
    order of the two callbacks is of no matter. An evaluation that is due on the step of a notice is left out, for the
    time may be short. Outside of Ray Train it saves nothing.
    """

    def __init__(self, every: Optional[Union[Literal["auto"], float]] = None) -> None:
        """Raises ValueError."""
        self._agreement = Agreement(every)
        self._asked_at: Optional[float] = None  # for a save, after which no step has begun yet
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

    def on_step_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if self._asked_at is not None:
            self._agreement.note_save(time.monotonic() - self._asked_at)
            self._asked_at = None

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> TrainerControl:
        _show_progress(state)
        if self._agreement.is_time_to_save():
            control.should_save = True
            self._asked_at = time.monotonic()
            if self._agreement.has_notice:
                control.should_evaluate = False
        return control

    def on_evaluate(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if self._asked_at is not None:
            # The Trainer saves after it has evaluated.
            self._asked_at = time.monotonic()

    def on_prediction_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        # A long evaluation is no hang.
        _show_progress(state)


def _show_progress(state: TrainerState) -> None:
    tokens = state.num_input_tokens_seen or None
    training.progress(state.global_step, total=state.max_steps or None, tokens=tokens)
