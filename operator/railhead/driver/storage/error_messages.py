"""What a storage error means for the user: whose fault it is, and what to do. Pure.

The texts come from Arrow's C++ file systems, which Ray Train writes with; those of object stores carry no error codes.
"""

from __future__ import annotations

import errno
import re

from railhead.driver.describe import read_text

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
_NO_HADOOP = re.compile("libjvm|libhdfs|HADOOP_HOME|CLASSPATH", re.IGNORECASE)

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
# What storage says that was written to before and is away: the folder below a mount, a server's emergency.
_AWAY_CODES = _PASSING_CODES | {errno.ENOENT, errno.EROFS}


def is_away(error: BaseException) -> bool:
    """Whether a retry may succeed, for storage that this job has written to before."""
    return is_passing(error) or (isinstance(error, OSError) and error.errno in _AWAY_CODES)


def is_passing(error: BaseException) -> bool:
    """Whether a retry may succeed: for storage and datasets alike. The text decides only without an error code."""
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
    return is_unreachable(read_text(error))  # Hadoop's client has codes of its own


def is_unreachable(text: str) -> bool:
    """Whether the storage reports that it currently cannot serve requests."""
    return bool(_UNREACHABLE.search(text)) and not _REFUSED.search(text)


def explain_error(storage_path: str, text: str, *, pyarrow: str, field: str = "run.storagePath") -> str:
    """A sentence that begins with the field; `pyarrow` is the image's version."""
    scheme = find_scheme(storage_path)
    prefix = f"{field} {storage_path}"
    if scheme in ("hdfs", "viewfs") and _NO_HADOOP.search(text):
        need = "Java and Hadoop's native client (libhdfs, with JAVA_HOME, HADOOP_HOME and CLASSPATH set)"
        return f"{prefix}: spec.image lacks what {scheme}:// needs: {need}: {text}"
    if scheme and _NOT_BUILT.search(text):
        return f"{prefix}: pyarrow {pyarrow} in spec.image cannot open {scheme}://; install a newer pyarrow: {text}"
    if is_unreachable(text):
        return f"{prefix} cannot be reached: {text}"
    advice = ""
    if scheme and _REFUSED.search(text):
        names = _CREDENTIALS.get(scheme, "its credentials")
        advice = f"; check the name, and the credentials that spec.envFrom gives the pods ({names})"
    return f"{prefix} cannot be {'written' if field == 'run.storagePath' else 'read'}: {text}{advice}"


def find_scheme(storage_path: str) -> str:
    """Empty for a path."""
    scheme, mark, _ = storage_path.partition("://")
    return scheme if mark else ""
