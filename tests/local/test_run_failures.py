"""`railhead local run` of a job that fails: its exit code and the message that a user reads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from railhead.local.session import Session
from tests.e2e.jobs import make_job
from tests.local.test_session import call


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    session = Session(tmp_path_factory.mktemp("failures") / "session")
    try:
        code, output = call("up", session=session)
        assert code == 0, output
        yield session
    finally:
        session.down()


def test_the_command_fails_if_the_job_does(session: Session, tmp_path: Path) -> None:
    spec = make_job("unwritable", "none", run={"storagePath": "/proc/railhead"})
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(spec))
    code, output = call("run", "-f", str(tmp_path / "job.yaml"), session=session)
    assert code == 1, output
    assert "/proc/railhead cannot be written" in output
