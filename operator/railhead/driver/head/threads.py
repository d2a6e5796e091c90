"""Starts the head's threads."""

from __future__ import annotations

import threading
from typing import Callable


def start_thread(target: Callable[..., object], *arguments: object) -> threading.Thread:
    """Starts a daemon thread: the process ends by `end` alone, whatever its threads still wait for."""
    thread = threading.Thread(target=target, args=arguments, daemon=True)
    thread.start()
    return thread
