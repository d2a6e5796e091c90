"""How the operator is wired: what it changes for its whole process."""

from __future__ import annotations

import gc
import resource
import sys
from asyncio import sslproto

import pytest

from railhead.controller.app import GARBAGE_THRESHOLD, MOST_CALLS, change_process


def test_the_process_has_small_buffers_deep_calls_many_files_and_little_garbage_collection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With asyncio's default, 1,000 connections take 256 MiB."""
    calls, files, garbage = sys.getrecursionlimit(), resource.getrlimit(resource.RLIMIT_NOFILE), gc.get_threshold()
    monkeypatch.setattr(sslproto.SSLProtocol, "max_size", 256 * 1024)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files[1] // 2, files[1]))
    try:
        change_process()
        assert sslproto.SSLProtocol.max_size <= 16 * 1024
        assert sys.getrecursionlimit() == MOST_CALLS > 10_000
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (files[1], files[1])
        assert gc.get_threshold()[0] == GARBAGE_THRESHOLD
    finally:
        sys.setrecursionlimit(calls)
        resource.setrlimit(resource.RLIMIT_NOFILE, files)
        gc.set_threshold(*garbage)
        gc.unfreeze()
