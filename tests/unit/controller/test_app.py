"""How the operator is wired: what it changes for its whole process."""

from __future__ import annotations

import sys
from asyncio import sslproto

import pytest

from railhead.controller.app import MOST_CALLS, change_process


def test_the_process_has_small_buffers_and_deep_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """With asyncio's default, 1,000 connections take 256 MiB."""
    before = sys.getrecursionlimit()
    monkeypatch.setattr(sslproto.SSLProtocol, "max_size", 256 * 1024)
    try:
        change_process()
        assert sslproto.SSLProtocol.max_size <= 16 * 1024
        assert sys.getrecursionlimit() == MOST_CALLS > 10_000
    finally:
        sys.setrecursionlimit(before)
