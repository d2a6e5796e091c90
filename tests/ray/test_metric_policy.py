"""spec.metricPolicy with a real Ray: a NaN restarts the group from the checkpoint; the same NaN again ends the job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from railhead.contract.answer import Answer
from railhead.contract.failure import FailureClass
from railhead.contract.metric_rule import MetricRule
from tests.ray.pods import Pods, make_single_job

# The first group waits after its NaN; the second one returns right after it. Step 2, with which it begins, has no loss:
# whether a report of the driver comes between a warning there and the NaN depends on the machine. So the first group
# waits for the report of its own warning before it makes step 2.
DIVERGES = """
import json, math, pathlib, tempfile, threading, time
import ray.train

def train_func(config):
    checkpoint = ray.train.get_checkpoint()
    begin = 0
    if checkpoint:
        with checkpoint.as_directory() as folder:
            begin = json.loads(pathlib.Path(folder, "step").read_text()) + 1
    for step in range(begin, 4):
        while step == 2 and not pathlib.Path(config["warned"]).exists():
            time.sleep(0.05)
        loss = math.nan if step == 3 else 1 / (step + 1)
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "step").write_text(json.dumps(step))
            saved = ray.train.Checkpoint.from_directory(folder) if step == 1 else None
            metrics = {"step": step} if step == 2 else {"loss": loss, "step": step}
            ray.train.report(metrics, checkpoint=saved)
    print("began with step", begin, flush=True)
    if not checkpoint:
        threading.Event().wait()
"""
RULES = (
    MetricRule("low", "Below", "Warn", metric="loss", threshold="0.6"),
    MetricRule("nan", "IsNaN", "Restart", metric="loss"),
)


@pytest.mark.slow  # test_hangs.py restarts a group, tests/unit has the rules
def test_a_nan_restarts_the_group_from_the_checkpoint_and_at_the_same_step_ends_the_job(tmp_path: Path) -> None:
    warned = tmp_path / "warned"

    def answer(report: dict[str, Any]) -> Answer:
        if report["warning"]:
            warned.touch()
        return Answer(restarts_in_place=3, metric_rules=RULES)

    job = make_single_job(train_loop_config={"warned": str(warned)})
    with Pods(tmp_path, job, source={"user.py": DIVERGES}) as pods:
        pods.answer = answer
        pods.start(workers=1)
        assert pods.wait_ended(timeout=120) == FailureClass.METRIC_RULE.exit_code, pods.read_log()
        outcome, log, reports = pods.read_outcome(), pods.read_log(), pods.reports
    message = "rule nan: loss is NaN at step 3 (spec.metricPolicy.rules[nan])"
    [restart] = {
        (each["number"], each["charged"], each["cause"], each["reason"], each["message"])
        for each in (report["restart"] for report in reports)
        if each
    }
    assert restart == (1, 1, "Application", "MetricRule", message)
    assert "began with step 0" in log and "began with step 2" in log
    assert (outcome.outcome, outcome.reason, outcome.charged_restarts) == ("MetricRule", "MetricRule", 1)
    assert outcome.message.startswith(message) and "has restarted for it before this step was passed" in outcome.message
    assert outcome.checkpoint is not None and outcome.checkpoint.index == 0
    warnings = {report["warning"]["message"] for report in reports if report["warning"]}
    assert warnings == {"rule low: loss is 0.5, below 0.6, at step 1 (spec.metricPolicy.rules[low])"}
