"""Mutated jobs and a real API server: it refuses each with the name of a field, or the operator can run what it stores.

Nothing is stored: the requests are dry runs.
"""

from __future__ import annotations

import re

import pytest

from railhead.api.parsed_spec import InvalidSpec, parse_spec
from tests.api.server import Answer, ApiServer
from tests.api.test_crd_accepts import VALID
from tests.api.trainjobs import PATH, make_job
from tests.fuzz.mutate import Mutator
from tests.fuzz.rig import make_rig, no_errors
from tests.fuzz.seeds import find_seeds, replayed_by
from tests.tried import Tried

FIELD = re.compile(r"\b(spec|metadata|kind|apiVersion|status)\b|unknown field|cannot be handled as|does not match")


async def run(seed: int, api_server: ApiServer) -> str:
    """What became of it."""
    mutator = Mutator(seed)
    job = make_job(mutator.random.choice(list(VALID.values())))
    validation = mutator.random.choice(("Strict", "Ignore"))  # kubectl's, and what most other clients use
    answer = api_server.request("POST", PATH, mutator.mutate(job), dryRun="All", fieldValidation=validation)
    if answer.status != 201:
        check_refusal(answer)
        return "refused"
    rig = await make_rig()
    stored = answer.body
    identity = {key: rig.job["metadata"][key] for key in ("name", "namespace", "uid")}
    with no_errors():
        rig.renew_job({**stored, "metadata": {**stored["metadata"], **identity}})
        await rig.run()
    rig.check()
    try:
        parse_spec(stored["spec"], name=stored["metadata"]["name"])
    except InvalidSpec:
        return "stored, but invalid for the operator"
    return "run"


def check_refusal(answer: Answer) -> None:
    assert 400 <= answer.status < 500, (answer.status, answer.message[:500])
    causes = (answer.body.get("details") or {}).get("causes") or []
    is_named = any(cause.get("field") for cause in causes) or FIELD.search(answer.message)
    assert is_named, (answer.status, answer.message[:500])


@pytest.mark.parametrize("seeds", find_seeds())
async def test_a_mutated_job_is_refused_by_its_field_or_runs(seeds: range, api_server: ApiServer, tried: Tried) -> None:
    for seed in seeds:
        with replayed_by(seed):
            tried(f"mutated jobs sent to an API server: {await run(seed, api_server)}", 1)
