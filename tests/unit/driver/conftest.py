"""Ranks in tests of the driver have their controller's permission, unless a test takes it away."""

from __future__ import annotations

import pytest

from railhead.driver.rank import run


@pytest.fixture(autouse=True)
def permitted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "_is_permitted", True)
