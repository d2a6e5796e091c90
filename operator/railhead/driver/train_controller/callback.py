"""Our callback in Ray Train's controller: the steps that are done during a run, in their order.

RAY_TRAIN_CALLBACKS names it, so the user's code need not mention it.
"""

from __future__ import annotations

from railhead.driver.ray.callback import StepsCallback
from railhead.driver.reporting.mailbox import open_mailbox
from railhead.driver.run_context import RunContext
from railhead.driver.train_controller.fence import FenceStep
from railhead.driver.train_controller.group import find_group
from railhead.driver.train_controller.group_checks import Barriers, OldProcessesStep, SharedStorageStep
from railhead.driver.train_controller.history import HistoryStep
from railhead.driver.train_controller.metric_policy import MetricRulesStep
from railhead.driver.train_controller.polls import EndNoticeStep, ReturnsStep, StacksStep
from railhead.driver.train_controller.progress import ProgressStep


class RailheadCallback(StepsCallback):
    """Ray creates it without arguments, in the driver, right after the run was written into the environment."""

    def __init__(self) -> None:
        run = RunContext.read()
        group, mailbox = find_group(run.run_uri), open_mailbox(fit=run.fit)
        steps = [  # in the order in which each of Ray's calls reaches them
            group,  # first: all others read who is in it
            FenceStep(group, mailbox, run),  # before anything touches a run that may belong to another
            Barriers(),  # before the group starts, when no other step acts
            ProgressStep(group, mailbox, run),  # before the checks: the head shows the group that they may end
            HistoryStep(group, mailbox, run),  # after the progress, and before the checks: it shows that group as well
            OldProcessesStep(),  # before the ranks' first call on their GPUs
            SharedStorageStep(),  # the slowest check, so the last one
            MetricRulesStep(group, mailbox),  # before the returns: metrics may fail the last report
            ReturnsStep(mailbox),  # before a hang: a rank that has returned does not hang
            StacksStep(mailbox),  # before the notice, which may wait for rank 0
            EndNoticeStep(group, mailbox),  # last: it may wait for rank 0, and nothing else is to wait for that
        ]
        super().__init__(steps)
