"""What an image sets of Railhead's own variables, and the operator does not, changes nothing while it is empty."""

from __future__ import annotations

import pytest

from railhead.contract import environment as e
from railhead.driver.container.pod_input import Pod

NEEDED = {
    e.INPUT: "/input",
    e.BUNDLE: "/railhead.pyz",
    e.POD_IP: "10.0.0.1",
    e.HEAD_HOST: "head",
    e.HEAD_PORT: "6379",
    e.TEMP: "/tmp/railhead",
}
OPTIONAL = (
    *(e.POD_UID, e.ATTEMPT, e.CHECKPOINT_INDEX, e.WORKER_PODS, e.PROGRESS_DEADLINE),
    *(e.RESUME_FROM, e.REPORT_URL, e.REPORT_TOKEN, e.TERMINATION_MESSAGE),
)


@pytest.mark.parametrize("name", OPTIONAL)
def test_an_empty_variable_is_an_absent_one(name: str) -> None:
    assert Pod.from_environment({**NEEDED, name: ""}) == Pod.from_environment(NEEDED)
