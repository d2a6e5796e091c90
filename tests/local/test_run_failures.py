"""`railhead local run` of jobs that fail: its exit code and the message that a user reads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from railhead.local.session import Session
from tests.e2e.jobs import make_job
from tests.local.test_session import call

RAISES = "def train_func(config):\n    raise ValueError('the lorry is empty')\n"


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    session = Session(tmp_path_factory.mktemp("failures") / "session")
    try:
        code, output = call("up", session=session)
        assert code == 0, output
        yield session
    finally:
        session.down()


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        pytest.param(
            "nowhere", {"function": "steps:no_such_function"}, "no_such_function", id="nowhere", marks=pytest.mark.slow
        ),
        pytest.param(
            "raises",
            {"code": RAISES, "backoffLimit": 0},
            "ValueError: the lorry is empty",
            id="raises",
            marks=pytest.mark.slow,
        ),
        ("unwritable", {"run": {"storagePath": "/proc/railhead"}}, "/proc/railhead cannot be written"),
    ],
)
def test_the_command_fails_if_the_job_does(
    session: Session, tmp_path: Path, name: str, changes: dict[str, Any], message: str
) -> None:
    spec: dict[str, Any] = {"run": {"storagePath": str(tmp_path)}, **changes}
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(make_job(name, "none", **spec)))
    code, output = call("run", "-f", str(tmp_path / "job.yaml"), session=session)
    assert code == 1, output
    assert message in output
