"""Mutated reports and tokens: an answer below 500, and a write to the job of the token only."""

from __future__ import annotations

import ssl
from typing import Any
from unittest.mock import AsyncMock

import pytest
from aiohttp.test_utils import make_mocked_request

from railhead.api import names
from railhead.contract.report import AUDIENCE, PATH, Report, ReportedOutcome, RestartInPlace, ResumedFrom, RunWarning
from railhead.controller.report.authority import Speaker
from railhead.controller.report.server import ReportHandler
from railhead.controller.tokens import TokenReviews, Verdict
from railhead.listener import Listener
from tests.fuzz.mutate import Mutator
from tests.fuzz.pods import CHECKPOINT, TIME, find_pod
from tests.fuzz.rig import NEIGHBOUR, OTHER_NAMESPACE, Rig, make_rig, no_errors
from tests.fuzz.seeds import find_seeds, replayed_by
from tests.model.world import NAMESPACE
from tests.tried import Tried
from tests.unit.controller.report.facts import encode, make_token


class Reviews(TokenReviews):
    """The API server, to which the head's token is valid whatever it says of itself."""

    def __init__(self, speaker: Speaker) -> None:
        super().__init__(self._accept, lambda: 0.0)
        self._speaker = speaker

    async def _accept(self, token: str) -> Verdict:
        return Verdict(200, self._speaker)


def make_report(rig: Rig) -> dict[str, Any]:
    report = Report(
        namespace=NAMESPACE,
        name="digits",
        uid=rig.uid,
        attempt=1,
        state="RUNNING",
        reports=7,
        joined=2,
        workers=2,
        metrics={"loss": "0.5"},
        time=TIME,
        checkpoint=CHECKPOINT,
        best_checkpoint=CHECKPOINT,
        run_uri="/runs/digits",
        resumed_from=ResumedFrom("/runs/digits/c1"),
        warning=RunWarning("CheckpointMissing", "it is gone"),
        outcome=ReportedOutcome("Application", "Raised", "no", 1, "w"),
        lost_pods=("w",),
        restart=RestartInPlace(1, 1, "Application", "Raised", "no"),
    )
    return report.to_dict()


def choose_body(rig: Rig, mutator: Mutator) -> bytes:
    """Sometimes another job's."""
    report, other = make_report(rig), {}
    if mutator.random.random() < 0.2:
        namespace, name, digit = mutator.random.choice(((NAMESPACE, NEIGHBOUR, "a"), (OTHER_NAMESPACE, "digits", "b")))
        other = {"namespace": namespace, "name": name, "uid": rig.uid[:-1] + digit}
    return mutator.mutate_text({**report, **other})


def choose_token(speaker: Speaker, mutator: Mutator) -> str:
    if mutator.random.random() < 0.7:
        return make_token(speaker)
    pod = {"name": speaker.pod, "uid": speaker.pod_uid}
    claims = {"aud": [AUDIENCE], "exp": 1e10, "kubernetes.io": {"namespace": speaker.namespace, "pod": pod}}
    return ".".join((encode({"alg": "RS256"}), encode(mutator.mutate(claims)), "signature"))


async def run(seed: int) -> None:
    rig, mutator = await make_rig(), Mutator(seed)
    head = find_pod(rig, names.HEAD)["metadata"]
    speaker = Speaker(NAMESPACE, head["name"], head["uid"])
    handler = ReportHandler(
        rig.operator.state,
        Reviews(speaker),
        rig.operator.writer,
        listener=Listener(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)),
        now=rig.operator.client.clock.now,
    )
    token, body = choose_token(speaker, mutator), choose_body(rig, mutator)
    request = make_mocked_request("POST", PATH, headers={"Authorization": f"Bearer {token}"})
    request.read = AsyncMock(return_value=body)  # type: ignore[method-assign]
    with no_errors():
        answer = await handler.answer(request)
        await rig.operator.writer.close()
        await rig.run()
    assert answer.status in (202, 400, 401, 403, 404, 409), answer.status
    assert answer.status == 202 or not rig.writes, "what is rejected changes nothing"
    rig.check()


@pytest.mark.parametrize("seeds", find_seeds())
async def test_a_mutated_report_changes_its_own_job_at_most(seeds: range, tried: Tried) -> None:
    for seed in seeds:
        with replayed_by(seed):
            await run(seed)
    tried("mutated reports", len(seeds))
