"""The mailbox of a head pod, for the steps that read and write it."""

from __future__ import annotations

from pathlib import Path

import pytest

from railhead.contract import environment as e
from railhead.driver.mailbox.mailbox import Mailbox


@pytest.fixture
def mailbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mailbox:
    monkeypatch.setenv(e.TEMP, str(tmp_path))
    return Mailbox(tmp_path)
