"""What is wrong with a job is said at `kubectl apply`, by the API server, with the field's name."""

from __future__ import annotations

import pytest

from tests.api.bad_jobs import BAD_JOBS, Bad
from tests.api.server import ApiServer
from tests.api.trainjobs import PATH, make_job


@pytest.mark.parametrize("bad", BAD_JOBS, ids=lambda bad: f"{bad.field}: {bad.words}")
def test_a_bad_job_is_refused_with_the_name_of_the_field(api_server: ApiServer, bad: Bad) -> None:
    # Strict is what kubectl asks for: a field that does not exist is an error.
    answer = api_server.request("POST", PATH, make_job(bad.changes), dryRun="All", fieldValidation="Strict")
    assert answer.status in (400, 422), answer.body
    assert bad.field in answer.message
    assert bad.words in answer.message


def test_there_are_enough_of_them() -> None:
    assert len(BAD_JOBS) >= 60
