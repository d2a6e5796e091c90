"""What Arrow receives for each kind of storage, and the messages for its errors."""

from __future__ import annotations

import errno
import re
import threading
from pathlib import Path

import pyarrow
import pyarrow.fs
import pytest
from ray.train.v2._internal.execution.storage import get_fs_and_path

from railhead.driver.messages.attempt_errors import JobRefused
from railhead.driver.storage import storage_call, write_check
from railhead.driver.storage.storage_call import call_storage, explain_error, is_passing, is_unreachable
from railhead.driver.storage.write_check import prepare_storage
from tests.unit.driver.storage.waiting import Waits, refuse_to_wait


@pytest.mark.parametrize(
    ("storage_path", "type_name", "path"),
    [
        ("/runs", "local", "/runs"),
        ("s3://bucket/runs?region=eu-central-1", "s3", "bucket/runs"),
        ("s3://bucket/runs?endpoint_override=minio:9000&scheme=http", "s3", "bucket/runs"),
        ("gs://bucket/runs", "gcs", "bucket/runs"),
        ("gs://anonymous@bucket/runs", "gcs", "bucket/runs"),
        ("gcs://bucket/runs?endpoint_override=localhost:4443&scheme=http", "gcs", "bucket/runs"),
        ("abfs://container@account.dfs.core.windows.net/runs", "abfs", "container/runs"),
        ("abfss://container@account.dfs.core.windows.net/runs", "abfs", "container/runs"),
    ],
)
def test_contract_ray_passes_every_uri_to_arrow(storage_path: str, type_name: str, path: str) -> None:
    """No storage needs a package besides pyarrow; the test makes no connection."""
    filesystem, found = get_fs_and_path(storage_path)
    assert (filesystem.type_name, found) == (type_name, path)


def test_rejects_azure_without_an_account() -> None:
    with pytest.raises(JobRefused, match=r"run\.storagePath abfs://container/runs cannot be written: .*account"):
        prepare_storage("abfs://container/runs", run_name="r", warn=print)


# Messages of Arrow 26; those for S3 were observed, the others are from its source.
REJECTED = [
    "OSError: Bucket 'absent' not found. To create buckets, enable the allow_bucket_creation option.",
    "OSError: When creating key 'p/' in bucket 'runs': AWS Error ACCESS_DENIED during PutObject operation: No response",
    "OSError: AWS Error INVALID_ACCESS_KEY_ID during HeadBucket operation (HTTP status 403)",
    "ArrowInvalid: Unexpected query parameter in S3 URI: 'foo'",
    "NotADirectoryError: [Errno 20] Not a directory: '/runs/x'",
    "OSError: google::cloud::Status(PERMISSION_DENIED: Permanent error: Permission denied)",
]
UNREACHABLE = [
    "OSError: When testing for existence of bucket 'runs': AWS Error NETWORK_CONNECTION during HeadBucket operation: "
    "curlCode: 7, Could not connect to server",
    "OSError: AWS Error UNKNOWN (HTTP status 503) during PutObject operation: Please reduce your request rate.",
    "OSError: google::cloud::Status(UNAVAILABLE: Retry policy exhausted: Could not resolve host)",
    "OSError: [Errno 116] Stale file handle: '/runs'",
]


@pytest.mark.parametrize("text", REJECTED)
def test_recognizes_permanent_errors(text: str) -> None:
    assert not is_unreachable(text)
    assert explain_error("s3://b/p", text, pyarrow="26").startswith("run.storagePath s3://b/p cannot be written: ")


@pytest.mark.parametrize("text", UNREACHABLE)
def test_recognizes_temporary_errors(text: str) -> None:
    assert is_unreachable(text)
    assert explain_error("s3://b/p", text, pyarrow="26") == f"run.storagePath s3://b/p cannot be reached: {text}"


TEMPORARY = [
    "ENOSPC", "EDQUOT", "EAGAIN", "EBUSY", "EIO", "ESTALE", "ENOTCONN", "EHOSTDOWN", "EHOSTUNREACH", "ENETUNREACH",
    "ENETDOWN", "ETIMEDOUT", "ECONNRESET", "ECONNREFUSED", "EPIPE", "ESHUTDOWN", "EREMOTEIO", "ENOLINK", "ENODEV",
    "EMFILE", "ENFILE", "ENOMEM", "ENOBUFS", "EINTR", "ENOLCK",
]  # fmt: skip


@pytest.mark.parametrize("code", TEMPORARY)
def test_an_error_code_is_temporary_whatever_the_text(code: str) -> None:
    assert is_passing(OSError(getattr(errno, code), "whatever the text says: Permission denied"))


@pytest.mark.parametrize("code", ["EACCES", "EPERM", "ENOENT", "ENOTDIR", "EROFS", "EISDIR", "EINVAL", "ENAMETOOLONG"])
def test_an_error_code_is_permanent_whatever_the_path(code: str) -> None:
    assert not is_passing(OSError(getattr(errno, code), "no", "/runs/timeout/HTTP status 503"))


@pytest.mark.parametrize("code", [errno.ENOENT, errno.EROFS])
def test_storage_that_was_used_before_is_unreachable_not_misconfigured(
    monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def fail(folder: str) -> str:
        raise OSError(code, "no", folder)

    monkeypatch.setattr(write_check, "_check_path", fail)
    with pytest.raises(JobRefused):
        prepare_storage("/runs", run_name="r", warn=refuse_to_wait)
    with pytest.raises(Waits, match=r"run\.storagePath /runs cannot be"):
        prepare_storage("/runs", run_name="r", is_known=True, warn=refuse_to_wait)


def test_unknown_codes_are_not_mistaken_for_errno() -> None:
    assert is_passing(OSError(255, "Connection refused"))
    assert not is_passing(OSError(255, "Permission denied"))


def test_arrow_sets_errno_for_errors_of_paths(tmp_path: Path) -> None:
    with pytest.raises(OSError) as caught:
        pyarrow.fs.LocalFileSystem().open_output_stream(str(tmp_path / ("x" * 999)))
    assert caught.value.errno == errno.ENAMETOOLONG


def test_credential_errors_name_the_variables_to_set() -> None:
    message = explain_error("s3://b/p", REJECTED[1], pyarrow="26")
    assert "spec.envFrom" in message and "AWS_SECRET_ACCESS_KEY" in message
    assert "GOOGLE_APPLICATION_CREDENTIALS" in explain_error("gs://b/p", REJECTED[5], pyarrow="26")
    assert "envFrom" not in explain_error("/runs", "PermissionError: Permission denied: '/runs/x'", pyarrow="26")


@pytest.mark.parametrize(
    "text",
    [
        "ArrowNotImplementedError: Got GCS URI but Arrow compiled without GCS support",
        "ArrowInvalid: Unrecognized filesystem type in URI: abfs://c@a.dfs.core.windows.net/p",
    ],
)
def test_names_a_pyarrow_that_is_too_old(text: str) -> None:
    message = explain_error("abfs://c@a/p", text, pyarrow="9.0.0")
    assert message.startswith(
        "run.storagePath abfs://c@a/p: pyarrow 9.0.0 in spec.image cannot open abfs://; install a"
    )


def test_a_storage_that_hangs_times_out() -> None:
    with pytest.raises(Waits, match=r"run\.storagePath .* no response within"):
        call_storage("/runs", threading.Event().wait, timeout=0.1, warn=refuse_to_wait)


def test_a_message_names_the_pyarrow_of_the_image(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise OSError("Got S3 URI but Arrow compiled without S3 support")

    for named in (pyarrow.__version__, "(none)"):
        with pytest.raises(JobRefused, match=re.escape(f"pyarrow {named} in spec.image cannot open s3://")):
            call_storage("s3://b/p", fail, warn=refuse_to_wait)
        monkeypatch.setattr(storage_call, "find_version", lambda package: "")
