"""Nothing that train_func reports, or that a head writes as it ends, reaches a terminal as a control character."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

import pytest

from railhead.api.status import JobStatus
from railhead.contract.outcome import Outcome
from railhead.controller.observe import observe_pod
from railhead.controller.operator_metrics import OperatorMetrics
from railhead.controller.report.writer import status_fields
from railhead.kube.bodies import build_event
from railhead.local.local_jobs import decide_ending, describe_job_change
from tests.unit.builders import RUNNING_STATUS, find_code, make_head, make_worker
from tests.unit.controller.raws import make_container, make_pod
from tests.unit.controller.report.facts import make_facts, make_report
from tests.unit.planning.state import decide

TEXTS = {
    "clears the screen": "\x1b[2J\x1b[H",
    "sets the title": "\x1b]0;owned\x07",
    "8-bit escape": "\x9b31m",
    "overwrites the line": "\rINFO all is well",
    "second log line": "\n2026-01-01 12:00:00 INFO forged",
    "null": "a\x00b",
    "backspaces": "a\x08\x08\x08",
    "right to left": "\u202egnp.exe",
    "line separator": "a\u2028b",
    "next line": "a\u0085b",
    "scrape": '"} 1\nforged_total{a="',
}
# JSON can write half of a surrogate pair; no encoder of ours could send it on. The endpoint rejects it (400).
ONLY_FROM_MESSAGES = {"half a surrogate pair": "a\ud800b"}
HEAD = make_head()


def strings(value: Any) -> Iterator[str]:
    """All strings in it, also keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from strings(key)
            yield from strings(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from strings(each)


def check(value: Any, *, lines: bool = False) -> None:
    """Printable; `lines`: nor has it more than one line."""
    for text in strings(value):
        assert (text if lines else text.replace("\n", "")).isprintable(), ascii(text)
        text.encode()


def checkpoint_of(uri: str, text: str) -> dict[str, Any]:
    return {"uri": uri, "index": 9, "time": text, "metrics": {text: text}, "attempt": 1}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_report_brings_no_control_character_into_the_status(text: str) -> None:
    restart = {"number": 1, "charged": 1, "cause": text, "reason": text, "message": text}
    outcome = {"outcome": text, "reason": text, "message": text, "suspect_pod": text}
    report = make_report(
        metrics={text: text, "loss": text},
        time=text,
        checkpoint=checkpoint_of("/runs/c9", text),
        best_checkpoint=checkpoint_of("/runs/" + text, text),
        run_uri="/runs/" + text,
        tracker_url="https://t/" + text,
        resumed_from={"uri": "/runs/" + text},
        warning={"reason": "StorageUnreachable", "message": text},
        restart=restart,
        outcome=outcome,
        lost_pods=[text],
        finishing=text,
        slow_ranks=[{"rank": 1, "pod": text, "score": text, "since": text}],
    )
    known = make_facts().status
    fields = status_fields(report, known)
    check({key: value for key, value in fields.items() if key != "progress"}, lines=True)
    progress = fields["progress"]
    check(progress)
    check([progress["metrics"], progress["lostPods"], progress["outcome"]["reason"]], lines=True)
    assert fields.keys() == {"progress", "checkpoint"}, "a URI that is no line is dropped, as another leads elsewhere"
    new = {**RUNNING_STATUS, **fields}
    check(describe_job_change({"status": RUNNING_STATUS}, {"status": new}))
    assert status_fields(report, JobStatus.model_validate(new)) == {}, "the same report is written once"


def end_with(message: str, *, code: int) -> dict[str, Any]:
    """A head that ends with this termination message: the fields of the plan's status write, and its events."""
    ended = {"exitCode": code, "message": message, "reason": "Error", "finishedAt": "2026-01-01T11:59:59Z"}
    status = {"phase": "Failed" if code else "Succeeded", "containerStatuses": [make_container(terminated=ended)]}
    seen = observe_pod(make_pod(HEAD.name, status=status))
    head = replace(
        HEAD, phase=seen.phase, is_running=False, exit_code=code, message=seen.message, finished_at=seen.finished_at
    )
    planned = decide(head, make_worker(0), make_worker(1), status=RUNNING_STATUS)
    assert planned.status is not None
    about = {"uid": "u", "name": "digits", "namespace": "default"}
    events = [
        build_event(about, type_=each.type, reason=each.reason, message=each.message, component="railhead")
        for each in planned.events
    ]
    return {"status": dict(planned.status.fields), "events": events}


@pytest.mark.parametrize("outcome", ["Succeeded", "Application", "Infrastructure", "Configuration"])
@pytest.mark.parametrize("text", [*TEXTS.values(), *ONLY_FROM_MESSAGES.values()], ids=[*TEXTS, *ONLY_FROM_MESSAGES])
def test_a_termination_message_brings_no_control_character_further(text: str, outcome: str) -> None:
    values = asdict(Outcome(outcome, text, text, metrics={text: text}, suspect_pod=text))
    values |= {"checkpoint": checkpoint_of("/runs/c9", text), "best_checkpoint": checkpoint_of("/runs/" + text, text)}
    result = end_with(json.dumps(values), code=find_code(outcome))
    check(result)
    json.dumps(result, ensure_ascii=False).encode()
    new = {"status": {**RUNNING_STATUS, **result["status"]}}
    lines = describe_job_change({"status": RUNNING_STATUS}, new)
    check(lines)
    assert not [line for line in lines if line.splitlines()[1:] and not line.splitlines()[1].startswith("  ")]
    ending = decide_ending(new)
    check(ending.lines if ending else [], lines=True)


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_log_in_place_of_the_termination_message_brings_none_either(text: str) -> None:
    """With terminationMessagePolicy FallbackToLogsOnError the kubelet takes the end of the log."""
    check(end_with(f"Traceback: {text}", code=1))


@pytest.mark.parametrize(
    "value", ["NaN", "Infinity", "-Infinity", "1e999", "9" * 5000, "[" * 3000, "null", '"a"', "{}"]
)
@pytest.mark.parametrize("name", ["reports", "restarts", "charged_restarts", "process_exit_code", "metrics"])
def test_a_termination_message_with_absurd_values_ends_the_attempt_all_the_same(name: str, value: str) -> None:
    result = end_with(f'{{"outcome": "Application", "{name}": {value}}}', code=find_code("Application"))
    json.dumps(result, allow_nan=False)
    assert result["status"]["failure"]["class"] == "Application"


def test_nothing_of_a_report_is_in_a_scrape() -> None:
    """Its labels are namespaces, phases, classes, codes, verbs and resources."""
    metrics = OperatorMetrics()
    before = metrics.begin_render()()
    for text in TEXTS.values():
        report = make_report(metrics={text: text}, outcome={"outcome": text, "reason": text})
        status = JobStatus.model_validate(status_fields(report, make_facts().status))
        metrics.count_change("a", make_facts().status, status)
    samples = [line.split()[0] for line in before.splitlines()]
    assert [line.split()[0] for line in metrics.begin_render()().splitlines()] == samples
