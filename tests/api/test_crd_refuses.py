"""The API server rejects invalid jobs at `kubectl apply` and names the field."""

from __future__ import annotations

import pytest

from tests.api.bad_jobs import BAD_JOBS, Bad
from tests.api.server import ApiServer
from tests.api.trainjobs import PATH, make_job


@pytest.mark.parametrize("bad", BAD_JOBS, ids=lambda bad: f"{bad.field}: {bad.message}")
def test_an_invalid_job_is_rejected_naming_the_field(api_server: ApiServer, bad: Bad) -> None:
    # Strict, as kubectl requests it: an unknown field is an error.
    answer = api_server.request("POST", PATH, make_job(bad.changes), dryRun="All", fieldValidation="Strict")
    assert answer.status in (400, 422), answer.body
    assert bad.field in answer.message
    assert bad.message in answer.message


def test_there_are_enough_bad_jobs() -> None:
    assert len(BAD_JOBS) >= 60
