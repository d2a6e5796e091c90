"""Who may report: only the live head pod of the current attempt of exactly this job."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from railhead.api import names
from railhead.contract.report import AUDIENCE
from railhead.controller.report.authority import (
    POD_NAME,
    POD_UID,
    JobFacts,
    Speaker,
    read_review,
    refusal,
)
from tests.unit.builders import make_head, make_worker
from tests.unit.controller.report.facts import HEAD, SPEAKER, make_facts, make_report

WORKER = make_worker(0)
SECOND_HEAD = make_head(attempt=2)
FAILURE = {"class": "Application", "reason": "TrainingFailed", "attempt": 1}
COMPLETE = {"type": "Complete", "status": "True", "reason": "Succeeded", "message": "", "observedGeneration": 1}


def speaker_of(pod: Any, **changes: Any) -> Speaker:
    return replace(Speaker("default", pod.name, pod.uid), **changes)


def test_the_live_head_may_report() -> None:
    assert refusal(SPEAKER, make_report(), make_facts()) is None


def test_the_head_may_report_before_it_is_seen_running() -> None:
    assert refusal(SPEAKER, make_report(), make_facts(replace(HEAD, phase="Pending", is_running=False))) is None


def test_the_failure_of_an_earlier_attempt_does_not_block_the_current_one() -> None:
    facts = make_facts(SECOND_HEAD, attempt=2, failure=FAILURE)
    assert refusal(speaker_of(SECOND_HEAD), make_report(attempt=2), facts) is None


@pytest.mark.parametrize(
    ("speaker", "report", "job", "code"),
    [
        pytest.param(replace(SPEAKER, namespace="other"), make_report(), make_facts(), 403, id="another namespace"),
        pytest.param(SPEAKER, make_report(namespace="other"), make_facts(), 403, id="about another namespace"),
        pytest.param(SPEAKER, make_report(), None, 404, id="no job"),
        pytest.param(SPEAKER, make_report(uid="older"), make_facts(), 404, id="an earlier job of the same name"),
        pytest.param(SPEAKER, make_report(), make_facts(uid="newer"), 404, id="a later job of the same name"),
        pytest.param(replace(SPEAKER, pod="p", pod_uid="u"), make_report(), make_facts(), 403, id="an unowned pod"),
        pytest.param(speaker_of(WORKER), make_report(), make_facts(), 403, id="a worker"),
        pytest.param(
            replace(SPEAKER, pod_uid="u"), make_report(), make_facts(), 403, id="the head's name, another uid"
        ),
        pytest.param(replace(SPEAKER, pod="p"), make_report(), make_facts(), 403, id="the head's uid, another name"),
        pytest.param(SPEAKER, make_report(), JobFacts(make_facts().uid, make_facts().status, ()), 403, id="no pods"),
        pytest.param(SPEAKER, make_report(), make_facts(attempt=2), 409, id="a past attempt"),
        pytest.param(
            SPEAKER, make_report(attempt=2), make_facts(HEAD, SECOND_HEAD, attempt=2), 409, id="for a later attempt"
        ),
        pytest.param(
            speaker_of(SECOND_HEAD), make_report(attempt=2), make_facts(SECOND_HEAD), 409, id="not yet in the status"
        ),
        pytest.param(SPEAKER, make_report(attempt=2), make_facts(), 409, id="a future attempt"),
        pytest.param(SPEAKER, make_report(attempt=2**70), make_facts(), 409, id="an absurdly large attempt"),
        pytest.param(SPEAKER, make_report(), make_facts(replace(HEAD, phase="Failed")), 409, id="the head has failed"),
        pytest.param(
            SPEAKER, make_report(), make_facts(replace(HEAD, phase="Succeeded")), 409, id="the head has succeeded"
        ),
        pytest.param(SPEAKER, make_report(), make_facts(conditions=[COMPLETE]), 409, id="complete"),
        pytest.param(SPEAKER, make_report(), make_facts(conditions=[{**COMPLETE, "type": "Failed"}]), 409, id="failed"),
        pytest.param(SPEAKER, make_report(), make_facts(failure=FAILURE), 409, id="the attempt failed"),
    ],
)
def test_nothing_else_may_report(speaker: Speaker, report: Any, job: JobFacts | None, code: int) -> None:
    refused = refusal(speaker, report, job)
    assert refused is not None
    assert refused[0] == code
    assert refused[1]


def test_a_rejection_reveals_nothing_about_the_job() -> None:
    """Whether a job exists is visible only in its own namespace."""
    stranger = replace(SPEAKER, namespace="other")
    assert refusal(stranger, make_report(), None) == refusal(stranger, make_report(), make_facts())


def test_only_the_role_label_makes_a_head() -> None:
    assert refusal(SPEAKER, make_report(), make_facts(replace(HEAD, role=""))) is not None
    assert HEAD.role == names.HEAD


def make_review(**status: Any) -> dict[str, Any]:
    user = {
        "username": "system:serviceaccount:default:runner",
        "extra": {POD_NAME: ["digits-head"], POD_UID: ["u-1"]},
    }
    return {"status": {"authenticated": True, "audiences": [AUDIENCE], "user": user, **status}}


def with_user(**changes: Any) -> dict[str, Any]:
    return make_review(user={**make_review()["status"]["user"], **changes})


def test_a_valid_token_identifies_the_pod_it_is_bound_to() -> None:
    assert read_review(make_review()) == Speaker("default", "digits-head", "u-1")


@pytest.mark.parametrize(
    "review",
    [
        pytest.param({}, id="no status"),
        pytest.param({"status": None}, id="a null status"),
        pytest.param(make_review(authenticated=False), id="not authenticated"),
        pytest.param(make_review(audiences=[]), id="empty audiences"),
        pytest.param(make_review(audiences=None), id="no audiences"),
        pytest.param(make_review(audiences=["https://kubernetes.default.svc"]), id="for the API server"),
        pytest.param(make_review(user=None), id="no user"),
        pytest.param(with_user(username="system:node:n1"), id="a node"),
        pytest.param(with_user(username="alice"), id="a person"),
        pytest.param(with_user(username="system:serviceaccount:default"), id="too few parts in the name"),
        pytest.param(with_user(username="system:serviceaccount:default:a:b"), id="too many parts in the name"),
        pytest.param(with_user(extra=None), id="bound to nothing"),
        pytest.param(with_user(extra={POD_NAME: ["p"]}), id="no pod uid"),
        pytest.param(with_user(extra={POD_UID: ["u"]}), id="no pod name"),
        pytest.param(with_user(extra={POD_NAME: ["p", "q"], POD_UID: ["u"]}), id="two pods"),
    ],
)
def test_any_other_review_identifies_nobody(review: dict[str, Any]) -> None:
    assert read_review(review) is None
