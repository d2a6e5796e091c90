"""Where a reader's own credentials are sent: to the clouds, and to hosts that the reader has named."""

from __future__ import annotations

import pytest

from railhead.client.exit_codes import ClientError, ExitCode
from railhead.client.run.store_uri import check_store, read_endpoints


def check(uri: str, *named: str, **environment: str) -> str:
    return check_store(uri, read_endpoints(named, environment))


@pytest.mark.parametrize(
    ("uri", "sent"),
    [
        ("s3://b/x/y", "s3://b/x/y"),
        ("s3://b.c-d/x?region=eu-west-1", "s3://b.c-d/x?region=eu-west-1"),
        ("s3://b/x?scheme=https", "s3://b/x?scheme=https"),
        ("s3://b/x?endpoint_override=s3.eu-west-1.amazonaws.com", "s3://b/x?endpoint_override=s3.eu-west-1.amazonaws.com"),
        ("s3://b/x?allow_bucket_creation=true&region=a", "s3://b/x?region=a"),
        ("gs://b/x", "gs://b/x"),
        ("gcs://anonymous@b/x?project_id=p", "gcs://anonymous@b/x"),
        ("gs://b/x?endpoint_override=storage.googleapis.com", "gs://b/x?endpoint_override=storage.googleapis.com"),
        ("abfs://c@acct.dfs.core.windows.net/x", "abfs://c@acct.dfs.core.windows.net/x"),
        ("abfss://acct.blob.core.windows.net/c/x?enable_tls=true", "abfss://acct.blob.core.windows.net/c/x?enable_tls=true"),
        ("abfs://acct@c/x?credential_kind=cli", "abfs://acct@c/x"),
    ],
)  # fmt: skip
def test_the_clouds_own_hosts_need_no_name(uri: str, sent: str) -> None:
    assert check(uri) == sent


@pytest.mark.parametrize(
    ("uri", "host"),
    [
        ("gs://b/x?endpoint_override=evil:443", "https://evil"),
        ("s3://b/x?endpoint_override=evil:9000", "https://evil:9000"),
        ("s3://b/x?endpoint_override=evil:9000&scheme=http", "http://evil:9000"),
        ("s3://b/x?endpoint_override=http://evil:9000&scheme=https", "http://evil:9000"),
        ("s3://b/x?endpoint_override=http%3A%2F%2Fevil", "http://evil"),
        ("s3://b/x?scheme=http", "http://s3.amazonaws.com"),
        ("s3://b/x?scheme=http&region=eu-west-1", "http://s3.eu-west-1.amazonaws.com"),
        ("gs://b/x?scheme=http", "http://storage.googleapis.com"),
        ("s3://b/x?endpoint_override=evil.execute-api.eu-west-1.amazonaws.com", None),
        ("s3://b/x?endpoint_override=ec2-1-2-3-4.compute-1.amazonaws.com", None),
        ("s3://b/x?endpoint_override=s3.amazonaws.com.evil", None),
        ("s3://b/x?endpoint_override=s3.amazonaws.com:8443", None),
        ("s3://b/x?endpoint_override=[fe80::1]:9000", "https://[fe80::1]:9000"),
        ("gs://anonymous@b/x?endpoint_override=evil", "https://evil"),
        ("gs://b/x?endpoint_override=storage.googleapis.com.evil", None),
        ("abfs://acct@evil.com:444/c/x", "https://evil.com:444"),
        ("abfs://acct@evil.com/c/x?enable_tls=false", "http://evil.com"),
        ("abfss://c@acct.dfs.core.windows.net/x?enable_tls=false", "http://acct.dfs.core.windows.net"),
        ("abfs://acct.dfs.core.windows.net.evil.com/c/x", None),
    ],
)
def test_another_host_has_to_be_named(uri: str, host: str | None) -> None:
    """The message names it, and what it says to type is accepted."""
    with pytest.raises(ClientError, match="credentials would be sent there") as error:
        check(uri)
    assert error.value.code == ExitCode.DENIED
    shown = str(error.value).partition("--endpoint ")[2].partition(",")[0]
    assert host in (shown, None)
    assert check(uri, shown)
    assert check(uri, RAILHEAD_ENDPOINTS=f"other:1, {shown}")


@pytest.mark.parametrize(
    "uri",
    [
        "s3://b/x?tls_verify_certificates=false",
        "s3://b/x?tls_ca_file_path=/tmp/ca",
        "s3://b/x?endpoint_override=good&endpoint_override=evil",
        "s3://b/x?region=a.evil.com/",
        "s3://b/x?region=a;endpoint_override=evil",
        "s3://b%2F.evil.com/x",
        "s3://evil.com:80/x",
        "s3://user@b/x",
        "s3://b/x?scheme=HTTP",
        "s3://b/x?scheme=https://evil/",
        "s3://b/x?endpoint_override=good@evil",
        "s3://b/x?endpoint_override=good/../evil",
        "s3://b/x?endpoint_override=ftp://evil",
        "s3://b/x?proxy_options=evil",
        "s3://b/x#y?endpoint_override=evil",
        "s3://b\\@evil/x",
        "gs://user@b/x",
        "gs://b/x?scheme=https%3A%2F%2Fevil%3Fx%3D",
        "gs://b/x?universe_domain=evil",
        "abfs://c@acct.dfs.core.windows.net/x?blob_storage_authority=.evil.com",
        "abfs://c@acct.dfs.core.windows.net/x?dfs_storage_authority=evil.com",
        "abfs://c@acct.dfs.core.windows.net/x?tenant_id=../evil",
        "abfs://c:pw@acct.dfs.core.windows.net/x",
        "abfs://acct/../evil@c/x?enable_tls=maybe",
        "http://evil/x",
        "fsspec+http://evil/x",
        "hf://evil/x",
        "file:///etc",
    ],
)
def test_a_uri_that_may_lead_elsewhere_is_refused_whatever_is_named(uri: str) -> None:
    with pytest.raises(ClientError, match="pass its URI with --folder"):
        check(uri, "http://evil", "https://evil.com", "http://good")


def test_plain_http_needs_the_scheme() -> None:
    uri = "s3://b/x?endpoint_override=minio:9000&scheme=http"
    with pytest.raises(ClientError, match="sent there without encryption"):
        check(uri, "minio:9000")
    assert check(uri, "http://minio:9000") == "s3://b/x?scheme=http&endpoint_override=minio%3A9000"
    assert check("s3://b/x?endpoint_override=minio:9000", "http://MINIO:9000/")
    with pytest.raises(ClientError):
        check("s3://b/x?endpoint_override=minio:9001", "http://minio:9000")


@pytest.mark.parametrize("variable", ["RAILHEAD_ENDPOINTS", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"])
def test_the_variables_of_the_reader_name_hosts(variable: str) -> None:
    uri = "s3://b/x?endpoint_override=127.0.0.1:5000&scheme=http"
    assert check(uri, **{variable: "http://127.0.0.1:5000"})


@pytest.mark.parametrize(
    "named", ["evil/path", "a b", "http://", "host:99999", "ftp://host", "user@host", "\x1b[1mhost"]
)
def test_a_name_that_is_no_host_is_a_usage_error(named: str) -> None:
    with pytest.raises(ClientError, match=r"is not \[https://\]HOST\[:PORT\]") as error:
        read_endpoints([named], {})
    assert error.value.code == ExitCode.USAGE
    assert "\x1b" not in str(error.value)
