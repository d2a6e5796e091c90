"""What is given to Arrow for each kind of storage, and what its errors are made of."""

from __future__ import annotations

import errno
import threading
from pathlib import Path

import pyarrow
import pyarrow.fs
import pytest
from ray.train.v2._internal.execution.storage import get_fs_and_path

from railhead.driver.errors import JobRefused, Unreachable
from railhead.driver.storage import call, prepare
from railhead.driver.storage.error_messages import explain_error, is_passing, is_unreachable, redact
from railhead.driver.storage.prepare import prepare_storage


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
def test_contract_ray_gives_every_uri_to_arrow(storage_path: str, type_name: str, path: str) -> None:
    """So that no storage needs a package beside pyarrow; nothing is connected to here."""
    filesystem, found = get_fs_and_path(storage_path)
    assert (filesystem.type_name, found) == (type_name, path)


def test_hadoop_without_its_client_is_said_in_words() -> None:
    with pytest.raises(JobRefused, match=r"run\.storagePath hdfs://namenode:8020/runs: spec\.image lacks") as caught:
        prepare_storage("hdfs://namenode:8020/runs", run_name="r")
    assert "libhdfs" in str(caught.value) and "JAVA_HOME" in str(caught.value)


def test_azure_without_an_account_is_refused_with_the_field() -> None:
    with pytest.raises(JobRefused, match=r"run\.storagePath abfs://container/runs cannot be written: .*account"):
        prepare_storage("abfs://container/runs", run_name="r")


# As Arrow 26 says them; the S3 ones were seen, the others are in its source.
REFUSED = [
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


@pytest.mark.parametrize("text", REFUSED)
def test_what_another_try_cannot_mend(text: str) -> None:
    assert not is_unreachable(text)
    assert explain_error("s3://b/p", text, pyarrow="26").startswith("run.storagePath s3://b/p cannot be written: ")


@pytest.mark.parametrize("text", UNREACHABLE)
def test_what_another_try_may_mend(text: str) -> None:
    assert is_unreachable(text)
    assert explain_error("s3://b/p", text, pyarrow="26") == f"run.storagePath s3://b/p cannot be reached: {text}"


PASSING = [
    "ENOSPC", "EDQUOT", "EAGAIN", "EBUSY", "EIO", "ESTALE", "ENOTCONN", "EHOSTDOWN", "EHOSTUNREACH", "ENETUNREACH",
    "ENETDOWN", "ETIMEDOUT", "ECONNRESET", "ECONNREFUSED", "EPIPE", "ESHUTDOWN", "EREMOTEIO", "ENOLINK", "ENODEV",
    "EMFILE", "ENFILE", "ENOMEM", "ENOBUFS", "EINTR", "ENOLCK",
]  # fmt: skip


@pytest.mark.parametrize("code", PASSING)
def test_a_code_that_another_try_may_mend(code: str) -> None:
    assert is_passing(OSError(getattr(errno, code), "whatever the text says: Permission denied"))


@pytest.mark.parametrize("code", ["EACCES", "EPERM", "ENOENT", "ENOTDIR", "EROFS", "EISDIR", "EINVAL", "ENAMETOOLONG"])
def test_a_code_counts_more_than_what_the_path_is_called(code: str) -> None:
    assert not is_passing(OSError(getattr(errno, code), "no", "/runs/timeout/HTTP status 503"))


@pytest.mark.parametrize("code", [errno.ENOENT, errno.EROFS])
def test_storage_that_was_written_to_before_is_away_and_not_wrong(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    def fail(folder: str) -> str:
        raise OSError(code, "no", folder)

    monkeypatch.setattr(prepare, "_check_path", fail)
    with pytest.raises(JobRefused):
        prepare_storage("/runs", run_name="r")
    with pytest.raises(Unreachable, match=r"run\.storagePath /runs cannot be"):
        prepare_storage("/runs", run_name="r", is_known=True)


def test_hadoops_own_codes_are_not_read_as_pythons() -> None:
    assert is_passing(OSError(255, "HDFS: Connection refused"))
    assert not is_passing(OSError(255, "HDFS: Permission denied"))


def test_arrow_gives_the_code_of_a_paths_error(tmp_path: Path) -> None:
    with pytest.raises(OSError) as caught:
        pyarrow.fs.LocalFileSystem().open_output_stream(str(tmp_path / ("x" * 999)))
    assert caught.value.errno == errno.ENAMETOOLONG


def test_wrong_credentials_come_with_the_names_of_the_right_ones() -> None:
    said = explain_error("s3://b/p", REFUSED[1], pyarrow="26")
    assert "spec.envFrom" in said and "AWS_SECRET_ACCESS_KEY" in said
    assert "GOOGLE_APPLICATION_CREDENTIALS" in explain_error("gs://b/p", REFUSED[5], pyarrow="26")
    assert "envFrom" not in explain_error("/runs", "PermissionError: Permission denied: '/runs/x'", pyarrow="26")


@pytest.mark.parametrize(
    "text",
    [
        "ArrowNotImplementedError: Got GCS URI but Arrow compiled without GCS support",
        "ArrowInvalid: Unrecognized filesystem type in URI: abfs://c@a.dfs.core.windows.net/p",
    ],
)
def test_an_arrow_that_is_too_old_is_named(text: str) -> None:
    said = explain_error("abfs://c@a/p", text, pyarrow="9.0.0")
    assert said.startswith("run.storagePath abfs://c@a/p: pyarrow 9.0.0 in spec.image cannot open abfs://; install a")


def test_a_storage_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(call, "CHECK_TIMEOUT", 0.1)
    monkeypatch.setattr(prepare, "_check_path", lambda folder: threading.Event().wait())
    with pytest.raises(Unreachable, match=r"run\.storagePath .* no response within"):
        prepare_storage(str(tmp_path), run_name="r")


def test_values_of_credentials_are_hidden_and_other_words_are_not() -> None:
    environment = {
        "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG\n",
        "AWS_SESSION_TOKEN": "wJalrXUtnFEMI/K7MDENG-and-more",
        "RAILHEAD_REPORT_TOKEN": "/var/run/railhead/token",
        "KEY": "a",
        "AWS_REGION": "eu-central-1",
    }
    text = "key wJalrXUtnFEMI/K7MDENG, wJalrXUtnFEMI/K7MDENG-and-more of a in eu-central-1, /var/run/railhead/token"
    said = redact(text, environment)
    assert said == "key (hidden), (hidden) of a in eu-central-1, /var/run/railhead/token"


def test_the_version_of_arrow_is_known() -> None:
    assert call._find_pyarrow() == pyarrow.__version__
