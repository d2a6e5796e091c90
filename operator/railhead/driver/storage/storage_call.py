"""Calls to the storage: bounded in time, tried again while it cannot serve, with errors explained for the user.

The texts of errors come from Arrow's C++ file systems, which Ray Train writes with; those of object stores carry no
error codes.
"""

from __future__ import annotations

import contextlib
import errno
import math
import re
import threading
import time
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Callable, Generic, Optional, TypeVar

from railhead.contract.report import RunWarning
from railhead.driver.container.packages import find_version
from railhead.driver.messages.attempt_errors import AttemptFailed, JobRefused, Unreachable
from railhead.driver.messages.exception_text import name_class, read_text
from railhead.driver.messages.log import log
from railhead.driver.messages.redaction import redact

UNREACHABLE = "StorageUnreachable"
TEXT_LIMIT = 600
# File systems retry by themselves, some for a quarter of an hour.
CHECK_SECONDS = 90.0
LONGEST_WAIT_SECONDS = 300.0  # between two tries before training
FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 15.0

T = TypeVar("T")
Warn = Callable[[Optional[RunWarning]], None]  # None: it is over

# The server did not respond, or responded that it currently cannot serve: a retry may succeed.
_UNREACHABLE = re.compile(
    "NETWORK_CONNECTION|curlCode|REQUEST_TIMEOUT|SERVICE_UNAVAILABLE|SLOW_DOWN|THROTTLING|INTERNAL_FAILURE"
    "|HTTP status 5[0-9][0-9]|Connection (refused|reset)|Could not resolve|timed? ?out|kUnavailable|UNAVAILABLE"
    "|EHOSTUNREACH|ENETUNREACH|Stale file handle|Input/output error",
    re.IGNORECASE,
)
# What a retry cannot fix, although the text may mention a server.
_REFUSED = re.compile(
    "ACCESS_DENIED|INVALID_ACCESS_KEY|SIGNATURE|NO_SUCH_BUCKET|not found|HTTP status (400|401|403|404)"
    "|PermissionDenied|Permission denied|Unauthorized|Forbidden",
    re.IGNORECASE,
)
_NOT_BUILT = re.compile(
    "without .* support|Unrecognized filesystem type|not built with|cannot import name", re.IGNORECASE
)

_CREDENTIALS = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS, or the pods' workload identity",
    "gcs": "GOOGLE_APPLICATION_CREDENTIALS, or the pods' workload identity",
    "abfs": "AZURE_CLIENT_ID, AZURE_TENANT_ID and AZURE_CLIENT_SECRET, or the pods' workload identity",
    "abfss": "AZURE_CLIENT_ID, AZURE_TENANT_ID and AZURE_CLIENT_SECRET, or the pods' workload identity",
}
# A full disk, a mount that is being restored, an unreachable server, a client that is short of something.
_PASSING_CODES = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EAGAIN, errno.EBUSY, errno.EINTR, errno.EIO, errno.ESTALE, errno.ENOLCK}
    | {errno.ENOTCONN, errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN, errno.ENETRESET}
    | {errno.ETIMEDOUT, errno.ETIME, errno.ENODEV, errno.ENXIO, errno.ENOBUFS, errno.ENOMEM, errno.EMFILE, errno.ENFILE}
    # Linux only: a server's own error, a lost link, a client that was evicted
    | {getattr(errno, name) for name in ("EREMOTEIO", "ENOLINK", "ECOMM", "ENONET") if hasattr(errno, name)}
)
# What an administrator may allow again, where the storage has been written to.
_REFUSED_CODES = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
# What storage says that was written to before and is away: the folder below a mount, a server's emergency.
_AWAY_CODES = _PASSING_CODES | {errno.ENOENT, errno.EROFS}


def call_storage(
    storage_path: str,
    function: Callable[[], T],
    *,
    warn: Warn,
    field: str = "run.storagePath",
    timeout: float = CHECK_SECONDS,
    is_known: bool = False,
) -> T:
    """Waits for storage that is unreachable, however long, and warns of it: a new attempt would find the same storage.

    `is_known`: it was written to before, so it is not the configuration that is wrong while it is away. Raises
    JobRefused, with the field's name; `function`'s own AttemptFailed propagates unchanged unless it is Unreachable.
    """
    call = _Call(function)
    has_warned = False

    def try_once() -> T:
        try:
            return call.wait(timeout)
        except AttemptFailed:
            raise
        except TimeoutError:
            message = f"{field} {storage_path} cannot be reached: no response within {timeout:.0f} s"
            raise Unreachable(UNREACHABLE, message) from None
        except Exception as error:
            text = " ".join(f"{name_class(error)}: {read_text(error)}".split())[:TEXT_LIMIT]
            message = explain_error(storage_path, text, pyarrow=find_version("pyarrow"), field=field)
            if is_away(error) if is_known else is_passing(error):
                raise Unreachable(UNREACHABLE, message) from error
            raise JobRefused("StorageRefused", message) from error

    def warn_of(error: Exception) -> None:
        nonlocal has_warned
        message = redact(f"{error}; the attempt waits for it, and training begins afterwards")
        log(message)
        with contextlib.suppress(OSError):
            warn(RunWarning(UNREACHABLE, message))
            has_warned = True

    result = Patience(warn_of, seconds=math.inf, longest=LONGEST_WAIT_SECONDS).call(try_once)
    if has_warned:
        warn(None)
    return result


class _Call(Generic[T]):
    """A call that hangs is never repeated: it may still write once the storage responds. Its thread dies with us."""

    def __init__(self, function: Callable[[], T]) -> None:
        self._function = function
        self._future: Optional[Future[T]] = None

    def wait(self, seconds: float) -> T:
        """Returns the answer. Raises TimeoutError."""
        future = self._future or self._start()
        if not wait([future], seconds).done:
            raise TimeoutError
        self._future = None
        return future.result()

    def _start(self) -> Future[T]:
        future = self._future = Future()

        def run() -> None:
            try:
                future.set_result(self._function())
            except Exception as error:
                future.set_exception(error)

        threading.Thread(target=run, name="railhead-storage", daemon=True).start()
        return future


@dataclass(frozen=True)
class Patience:
    """Tries again what the storage cannot do for a moment.

    Attributes:
        on_error: receives each error that is tried again.
        seconds: bounds the tries together, not one of them.
        longest: the longest pause, in seconds.
    """

    on_error: Callable[[Exception], None]
    seconds: float = 120.0
    longest: float = LONGEST_PAUSE_SECONDS
    sleep: Callable[[float], None] = time.sleep
    monotonic: Callable[[], float] = time.monotonic

    def call(self, action: Callable[[], T]) -> T:
        """Raises what no retry can fix at once, and anything else after `seconds`."""
        deadline = self.monotonic() + self.seconds
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                return action()
            except Exception as error:
                may_pass = isinstance(error, Unreachable) or is_passing(error)
                if not may_pass or self.monotonic() + pause > deadline:
                    raise
                self.on_error(error)
            self.sleep(pause)
            pause = min(pause * 2, self.longest)


def is_away(error: BaseException) -> bool:
    """Returns whether a retry may succeed, for storage that this job has written to before."""
    return is_passing(error) or (isinstance(error, OSError) and error.errno in _AWAY_CODES)


def is_passing(error: BaseException) -> bool:
    """Returns whether a retry may succeed: for storage and datasets alike. The text decides only without an error
    code."""
    names = {kind.__name__ for kind in type(error).__mro__}
    if "RayTaskError" in names:
        cause = getattr(error, "cause", None)
        return isinstance(cause, BaseException) and is_passing(cause)
    if isinstance(error, (ConnectionError, TimeoutError)) or "RayError" in names:
        return True
    if not isinstance(error, OSError):
        return False
    if error.errno in errno.errorcode:
        return error.errno in _PASSING_CODES
    return is_unreachable(read_text(error))


def is_of_storage(error: BaseException, *, source: Optional[str]) -> bool:
    """Returns whether the storage has failed, rather than the application, when a checkpoint was copied from `source`.

    `source`: a local folder; None if the checkpoint was written straight into the run's folder. Errors of object stores
    have no code. Those with a code are of a path: waiting helps with some, and no other one, such as a name that is too
    long, is the storage's. A permission, or the folder itself, may also be missing where the checkpoint is copied from.
    """
    if is_passing(error):
        return True
    if not isinstance(error, OSError):
        return False
    if isinstance(error, FileNotFoundError):
        return source is None
    if error.errno in errno.errorcode:
        is_of_source = source is not None and source in read_text(error)
        return error.errno in _REFUSED_CODES and not is_of_source
    return True


def is_unreachable(text: str) -> bool:
    """Returns whether the storage reports that it currently cannot serve requests."""
    return bool(_UNREACHABLE.search(text)) and not _REFUSED.search(text)


def explain_error(storage_path: str, text: str, *, pyarrow: str, field: str = "run.storagePath") -> str:
    """Returns a sentence that begins with the field; `pyarrow` is the image's version."""
    scheme = find_scheme(storage_path)
    prefix = f"{field} {storage_path}"
    if scheme and _NOT_BUILT.search(text):
        found = f"pyarrow {pyarrow or '(none)'} in spec.image"
        return f"{prefix}: {found} cannot open {scheme}://; install a newer pyarrow: {text}"
    if is_unreachable(text):
        return f"{prefix} cannot be reached: {text}"
    advice = ""
    if scheme and _REFUSED.search(text):
        names = _CREDENTIALS.get(scheme, "its credentials")
        advice = f"; check the name, and the credentials that spec.envFrom gives the pods ({names})"
    return f"{prefix} cannot be {'written' if field == 'run.storagePath' else 'read'}: {text}{advice}"


def find_scheme(storage_path: str) -> str:
    """Returns the URI's scheme, or an empty string for a path."""
    scheme, mark, _ = storage_path.partition("://")
    if mark:
        return scheme
    return ""
