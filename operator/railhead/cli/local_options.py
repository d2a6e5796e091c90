"""Shared by the local commands: the options of the session, and console output."""

from __future__ import annotations

import argparse
import shlex
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from railhead.local.session import Session, default_folder


def add_folder(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--dir", type=Path, default=default_folder(), help="folder of the session (default: %(default)s)"
    )


def add_capacity(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--gpus", type=_count, default=0, metavar="N", help="number of GPUs that the node advertises (nvidia.com/gpu)"
    )


def _count(text: str) -> int:
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of GPUs; use 0 or more")
    return int(text)


class Console:
    """Prints lines, each with the seconds since the command started."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def echo(self, text: str) -> None:
        print(f"{time.monotonic() - self._began:7.1f} s  {text}", flush=True)


def describe_access(session: Session) -> str:
    """The shell commands that point kubectl at the session."""
    return (
        f"  export KUBECONFIG={shlex.quote(str(session.kubeconfig))}\n"
        f"  export PATH={shlex.quote(str(session.bin))}:$PATH   # kubectl"
    )


def interrupt_on_termination() -> None:
    """SIGTERM and a closed terminal clean up just as Ctrl-C does."""
    for sig in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(sig, signal.default_int_handler)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """A second Ctrl-C does not cut the cleanup short."""
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(sig, signal.SIG_IGN) for sig in signals]
    try:
        yield
    finally:
        for sig, handler in zip(signals, before, strict=True):
            signal.signal(sig, handler)
