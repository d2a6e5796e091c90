"""status.run."""

from __future__ import annotations

import pytest

from railhead.api.run_status import RunStatus, list_uids


@pytest.mark.parametrize(
    ("run", "uids"),
    [
        (None, ("new",)),
        (RunStatus(name="r", uid="new"), ("new",)),
        (RunStatus(name="r", uid="new", former_uids=["a", "b"]), ("new", "a", "b")),
        (RunStatus(name="r", uid="old", former_uids=["a"]), ("new", "a", "old")),
        (RunStatus(), ("new",)),
    ],
)
def test_the_uids_of_a_restored_job(run: RunStatus | None, uids: tuple[str, ...]) -> None:
    assert list_uids("new", run) == uids
