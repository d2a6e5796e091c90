"""A report always fits the endpoint's limit."""

from __future__ import annotations

import json

from railhead.contract.report import LIMIT_BYTES, MAX_METRICS, NO_CHECKPOINT, CommittedCheckpoint, Report

FULL = {f"{number:03}{'m' * 125}": "v" * 256 for number in range(MAX_METRICS)}
BASE = Report("ns", "digits", "u", 1, "RUNNING")


def test_a_report_drops_metrics_of_checkpoints_rather_than_exceed_the_limit() -> None:
    newest, best = CommittedCheckpoint("/runs/c9", 9, "t", FULL), CommittedCheckpoint("/runs/c3", 3, "t", FULL)
    report = Report("ns", "digits", "u", 1, "RUNNING", metrics=FULL, checkpoint=newest, best_checkpoint=best)
    text = report.to_json()
    assert len(text) <= LIMIT_BYTES
    values = json.loads(text)
    assert values["metrics"] == FULL and values["checkpoint"]["metrics"] == FULL
    assert (values["best_checkpoint"]["index"], values["best_checkpoint"]["metrics"]) == (3, {})


def test_a_text_that_cannot_be_encoded_is_sent_with_replacements() -> None:
    report = Report("ns", "digits", "u", 1, "RUNNING", metrics={"loss": "\udcff"})
    assert json.loads(report.to_json())["metrics"] == {"loss": "?"}


def test_no_best_checkpoint_is_an_empty_object_and_an_unknown_one_is_null() -> None:
    assert json.loads(BASE.to_json())["best_checkpoint"] is None
    none_scored = Report("ns", "digits", "u", 1, "RUNNING", best_checkpoint=NO_CHECKPOINT)
    assert json.loads(none_scored.to_json())["best_checkpoint"] == {}
