"""Calls to the storage: bounded in time, with errors translated for the user."""

from __future__ import annotations

import contextlib
import math
import queue
import threading
from importlib import metadata
from typing import Callable, Generic, Optional, TypeVar, Union

from railhead.contract.report import RunWarning
from railhead.driver.describe import clean, name_class, read_text
from railhead.driver.errors import AttemptFailed, JobRefused, Unreachable
from railhead.driver.reporting.spool import Spool
from railhead.driver.storage.error_messages import explain_error, is_away, is_passing
from railhead.driver.storage.patience import Patience

UNREACHABLE = "StorageUnreachable"
TEXT_LIMIT = 600
CHECK_TIMEOUT = 90.0  # seconds; file systems retry by themselves, some for a quarter of an hour
LONGEST_WAIT = 300.0  # seconds between two tries before training

T = TypeVar("T")


def call_storage(
    storage_path: str,
    question: Callable[[], T],
    *,
    field: str = "run.storagePath",
    timeout: Optional[float] = None,
    is_known: bool = False,
    spool: Optional[Spool] = None,
) -> T:
    """`is_known`: it was written to before, so it is not the configuration that is wrong while it is away.

    Raises JobRefused or Unreachable, with the field's name; `question`'s own AttemptFailed propagates unchanged. With
    a spool it waits for storage that is unreachable, however long, and reports it there.
    """
    seconds = timeout or CHECK_TIMEOUT
    call = _Call(question)

    def ask() -> T:
        try:
            return call.wait(seconds)
        except AttemptFailed:
            raise
        except TimeoutError:
            message = f"{field} {storage_path} cannot be reached: no response within {seconds:.0f} s"
            raise Unreachable(UNREACHABLE, message) from None
        except Exception as error:
            text = " ".join(f"{name_class(error)}: {read_text(error)}".split())[:TEXT_LIMIT]
            message = explain_error(storage_path, text, pyarrow=_find_pyarrow(), field=field)
            if is_away(error) if is_known else is_passing(error):
                raise Unreachable(UNREACHABLE, message) from error
            raise JobRefused("StorageRefused", message) from error

    return ask() if spool is None else _wait_for(ask, spool)


def _wait_for(ask: Callable[[], T], spool: Spool) -> T:
    """No attempt is lost to it: the next one would find the same storage."""

    def tell(error: Exception) -> None:
        message = clean(f"{error}; the attempt waits for it, and training begins afterwards")
        print(f"railhead: {message}", flush=True)
        with contextlib.suppress(OSError):
            spool.write_warning(RunWarning(UNREACHABLE, message))

    result = Patience(tell, seconds=math.inf, longest=LONGEST_WAIT).call(ask)
    spool.forget_warning(UNREACHABLE)
    return result


class _Call(Generic[T]):
    """A call that hangs is never repeated: it may still write once the storage responds. Its thread dies with us."""

    def __init__(self, question: Callable[[], T]) -> None:
        self._question = question
        self._results: Optional[queue.SimpleQueue[Union[tuple[T, None], tuple[None, Exception]]]] = None

    def wait(self, seconds: float) -> T:
        """The answer. Raises TimeoutError."""
        if self._results is None:
            self._results = queue.SimpleQueue()
            threading.Thread(target=self._run, args=(self._results,), name="railhead-storage", daemon=True).start()
        try:
            result, error = self._results.get(timeout=seconds)
        except queue.Empty:
            raise TimeoutError from None
        self._results = None
        if error is not None:
            raise error
        return result  # type: ignore[return-value]

    def _run(self, results: queue.SimpleQueue[Union[tuple[T, None], tuple[None, Exception]]]) -> None:
        try:
            results.put((self._question(), None))
        except Exception as error:
            results.put((None, error))


def _find_pyarrow() -> str:
    try:
        return metadata.version("pyarrow")
    except metadata.PackageNotFoundError:
        return "(none)"
