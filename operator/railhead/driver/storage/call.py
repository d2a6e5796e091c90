"""Calls to the storage: bounded in time, with errors translated for the user."""

from __future__ import annotations

import queue
import threading
from importlib import metadata
from typing import Callable, Optional, TypeVar, Union

from railhead.driver.describe import name_class, read_text
from railhead.driver.errors import AttemptFailed, JobRefused, Unreachable
from railhead.driver.storage.error_messages import explain_error, is_away, is_passing

UNREACHABLE = "StorageUnreachable"
TEXT_LIMIT = 600
CHECK_TIMEOUT = 90.0  # seconds; file systems retry by themselves, some for a quarter of an hour

T = TypeVar("T")


def call_storage(
    storage_path: str,
    question: Callable[[], T],
    *,
    field: str = "run.storagePath",
    timeout: Optional[float] = None,
    is_known: bool = False,
) -> T:
    """`is_known`: it was written to before, so it is not the configuration that is wrong while it is away.

    Raises JobRefused or Unreachable, with the field's name; `question`'s own AttemptFailed propagates unchanged.
    """
    timeout = timeout or CHECK_TIMEOUT
    try:
        return _run_bounded(question, timeout)
    except AttemptFailed:
        raise
    except TimeoutError:
        message = f"{field} {storage_path} cannot be reached: no response within {timeout:.0f} s"
        raise Unreachable(UNREACHABLE, message) from None
    except Exception as error:
        text = " ".join(f"{name_class(error)}: {read_text(error)}".split())[:TEXT_LIMIT]
        message = explain_error(storage_path, text, pyarrow=_find_pyarrow(), field=field)
        if is_away(error) if is_known else is_passing(error):
            raise Unreachable(UNREACHABLE, message) from error
        raise JobRefused("StorageRefused", message) from error


def _run_bounded(question: Callable[[], T], timeout: float) -> T:
    """Raises TimeoutError; a thread that hangs in a file system dies with the process."""
    results: queue.SimpleQueue[Union[tuple[T, None], tuple[None, Exception]]] = queue.SimpleQueue()

    def run() -> None:
        try:
            results.put((question(), None))
        except Exception as error:
            results.put((None, error))

    threading.Thread(target=run, name="railhead-storage", daemon=True).start()
    try:
        result, error = results.get(timeout=timeout)
    except queue.Empty:
        raise TimeoutError from None
    if error is not None:
        raise error
    return result  # type: ignore[return-value]


def _find_pyarrow() -> str:
    try:
        return metadata.version("pyarrow")
    except metadata.PackageNotFoundError:
        return "(none)"
