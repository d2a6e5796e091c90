"""Our callback in Ray Train's controller: the steps that are done during a run, in their order.

RAY_TRAIN_CALLBACKS names it, so the user's code need not mention it.
"""

from __future__ import annotations

from railhead.driver.container.run_context import RunContext
from railhead.driver.mailbox.mailbox import open_mailbox
from railhead.driver.ray.controller_parts import make_room
from railhead.driver.ray.hooks import check_hooks
from railhead.driver.ray.steps_callback import ControllerStep, StepsCallback
from railhead.driver.train_controller.end_notice_step import EndNoticeStep
from railhead.driver.train_controller.fence_step import FenceStep
from railhead.driver.train_controller.history_step import HistoryStep
from railhead.driver.train_controller.metric_rules_step import MetricRulesStep
from railhead.driver.train_controller.old_processes_step import OldProcessesStep
from railhead.driver.train_controller.progress_step import ProgressStep
from railhead.driver.train_controller.returns_step import ReturnsStep
from railhead.driver.train_controller.shared_storage_step import SharedStorageStep
from railhead.driver.train_controller.stacks_step import StacksStep
from railhead.driver.train_controller.validations_step import ValidationsStep
from railhead.driver.train_controller.worker_group import get_group


class RailheadCallback(StepsCallback):
    """Ray creates it without arguments, in the driver, right after the run was written into the environment."""

    def __init__(self) -> None:
        run = RunContext.read()
        group = get_group(run.run_uri)
        mailbox = open_mailbox(fit=run.fit)
        # In the order in which each of Ray's calls reaches them.
        steps = [
            group,  # first: all others read who is in it
            FenceStep(group, mailbox, run),  # before anything touches a run that may belong to another
            Barriers(),  # before the group starts, when no other step acts
            ProgressStep(group, mailbox, run),  # before the checks: the head shows the group that they may end
            HistoryStep(group, mailbox, run),  # after the progress, and before the checks: it shows that group as well
            OldProcessesStep(),  # before the ranks' first call on their GPUs
            SharedStorageStep(),  # the slowest check, so the last one
            MetricRulesStep(group, mailbox),  # before the returns: metrics may fail the last report
            ReturnsStep(mailbox),  # before a hang: a rank that has returned does not hang
            ValidationsStep(mailbox),  # after the returns: only then does Ray Train wait for validations
            StacksStep(mailbox),  # before the notice, which may wait for rank 0
            EndNoticeStep(group, mailbox),  # last: it may wait for rank 0, and nothing else is to wait for that
        ]
        super().__init__(steps)


# Calls at once, Ray's default for an async actor.
LIMIT = 1000
SPARE = 16  # calls of the controller itself


class Barriers(ControllerStep):
    """Makes room for every rank in the actors of Ray Train in which each rank waits for the others.

    Of a group that has more ranks than such an actor runs calls at once, the last ones would not get in, and all would
    wait forever, at the first `report` or `get_dataset_shard`.
    """

    def before_group_start(self, size: int) -> None:
        """Raises JobRefused when this Ray has no room for that many ranks."""
        if size + SPARE > LIMIT:
            check_hooks(is_large=True)
            make_room(size + SPARE)
