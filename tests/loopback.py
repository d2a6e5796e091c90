"""Servers that tests start on loopback: a registry of images and charts, and any other by its command."""

from __future__ import annotations

import subprocess
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tools.crane import resolve_crane

from railhead.local.addresses import free_port
from tests.waiting import wait_until

START_SECONDS = 120


@contextmanager
def serve(command: Sequence[str], url: str) -> Iterator[None]:
    """Yields once the URL answers."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            wait_until(f"{command[0]} to answer", lambda: _answers(process, url), seconds=START_SECONDS)
            yield
        finally:
            process.terminate()


def _answers(process: subprocess.Popen[bytes], url: str) -> bool:
    assert process.poll() is None, process.args
    try:
        urllib.request.urlopen(url, timeout=5).close()
    except OSError:
        return False
    return True


@contextmanager
def serve_registry() -> Iterator[str]:
    """Yields its address, without a scheme; it has no TLS, and keeps everything in memory."""
    address = f"127.0.0.1:{free_port()}"
    with serve([str(resolve_crane(print)), "registry", "serve", "--address", address], f"http://{address}/v2/"):
        yield address
