"""What the local commands share: the session's options, and how they speak."""

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
        "--gpus", type=_count, default=0, metavar="N", help="GPUs that the node claims to have (nvidia.com/gpu)"
    )


def _count(text: str) -> int:
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of GPUs; write 0 or more")
    return int(text)


class Console:
    """Prints lines, each with the seconds since the command began."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def echo(self, text: str) -> None:
        print(f"{time.monotonic() - self._began:7.1f} s  {text}", flush=True)


def describe_access(session: Session) -> str:
    """The lines that make kubectl speak to the session."""
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
    """Cleaning up is not cut short by a second Ctrl-C."""
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(sig, signal.SIG_IGN) for sig in signals]
    try:
        yield
    finally:
        for sig, handler in zip(signals, before, strict=True):
            signal.signal(sig, handler)
