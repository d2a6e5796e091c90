"""A question to the storage: bounded in time, and its errors in the user's words."""

from __future__ import annotations

import queue
import threading
from importlib import metadata
from typing import Any, Callable, TypeVar, Union

from railhead.driver.errors import Fenced, JobRefused
from railhead.driver.storage.words import explain_error, is_unreachable

TEXT_LIMIT = 600
CHECK_TIMEOUT = 90.0  # seconds; file systems try again by themselves, some for a quarter of an hour

T = TypeVar("T")


class StorageRefused(JobRefused):
    """run.storagePath cannot be used as it is; the message names the field and holds the storage's own error."""

    def __init__(self, message: str) -> None:
        super().__init__("StorageRefused", message)

    def __reduce__(self) -> Any:
        return (type(self), (self.message,))


class StorageUnreachable(Exception):
    """run.storagePath did not answer; it may do so at the next attempt."""


def ask_storage(storage_path: str, question: Callable[[], T], *, field: str = "run.storagePath") -> T:
    """Raises StorageRefused or StorageUnreachable, with the field's name; what we have found out ourselves passes."""
    try:
        return _run_bounded(question)
    except (Fenced, JobRefused):
        raise
    except TimeoutError:
        told = f"{field} {storage_path} cannot be reached: no answer within {CHECK_TIMEOUT:.0f} s"
        raise StorageUnreachable(told) from None
    except Exception as error:
        text = " ".join(f"{type(error).__name__}: {error}".split())[:TEXT_LIMIT]
        told = explain_error(storage_path, text, pyarrow=_find_pyarrow(), field=field)
        raise (StorageUnreachable if is_unreachable(text) else StorageRefused)(told) from error


def _run_bounded(question: Callable[[], T]) -> T:
    """Raises TimeoutError; a thread that hangs in a file system ends with the process."""
    results: queue.SimpleQueue[Union[tuple[T, None], tuple[None, Exception]]] = queue.SimpleQueue()

    def run() -> None:
        try:
            results.put((question(), None))
        except Exception as error:
            results.put((None, error))

    threading.Thread(target=run, name="railhead-storage", daemon=True).start()
    try:
        result, error = results.get(timeout=CHECK_TIMEOUT)
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
