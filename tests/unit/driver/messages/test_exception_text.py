"""What a described exception says, and what it hides."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from railhead.contract.environment import FROM_SECRET
from railhead.driver.messages.exception_text import describe_exception
from railhead.driver.messages.printed_error import describe_printed_error, is_task_error
from railhead.driver.messages.redaction import hide_credentials, strip_credentials

TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJhdWQiOiJyYWlsaGVhZCJ9.c2lnbmF0dXJl"


def test_hides_values_of_credentials_only(tmp_path: Path) -> None:
    (tmp_path / "token").touch()
    environment = {
        "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG\n",
        "AWS_SESSION_TOKEN": "wJalrXUtnFEMI/K7MDENG-and-more",
        "RAILHEAD_REPORT_TOKEN": str(tmp_path / "token"),
        "KEY": "a",
        "AWS_REGION": "eu-central-1",
    }
    text = "key wJalrXUtnFEMI/K7MDENG, wJalrXUtnFEMI/K7MDENG-and-more of a in eu-central-1, "
    text += str(tmp_path / "token")
    message = hide_credentials(text, environment)
    assert message == f"key (hidden), (hidden) of a in eu-central-1, {tmp_path / 'token'}"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("AWS_SECRET_ACCESS_KEY", "/wJalrXUtnFEMI/K7MDENG"),
        ("MYSQL_PWD", "hunter2"),
        ("PGPASSWORD", "hunter2"),
        ("HTTP_AUTH", "me:hunter2"),
        ("HTTP_AUTHORIZATION", "me:hunter2"),
        ("SESSION_COOKIE", "c00kie-value"),
        ("SENTRY_DSN", "abc@sentry/1"),
        ("PRIVATE_PEM", "MIIEvQIBADANBgkqh"),
    ],
)
def test_hides_values_by_their_names(name: str, value: str) -> None:
    assert hide_credentials(f"it is <{value}>", {name: value}) == "it is <(hidden)>"


@pytest.mark.parametrize(
    "value",
    ["s3cr", "/s3cret/that/looks/like/a/path", "p@ss w0rd", "a\nline-two-of-it", "ünïcode", "byte\udcff\udc80s"],
)
def test_hides_all_that_comes_from_a_secret_whatever_its_name(value: str) -> None:
    printed = value.splitlines()[-1]
    environment = {"GREETING": value, f"{FROM_SECRET}GREETING": value}
    assert hide_credentials(f"it is <{printed}>", environment) == "it is <(hidden)>"
    assert hide_credentials(f"it is <{printed}>", {"GREETING": value}) == f"it is <{printed}>"


def test_hides_the_forms_that_requests_and_manifests_give_a_credential() -> None:
    environment = {f"{FROM_SECRET}DB": "p@ss/w0rd+1"}
    assert (
        hide_credentials("url p%40ss%2Fw0rd%2B1, base64 cEBzcy93MHJkKzE=.", environment)
        == "url (hidden), base64 (hidden)=."
    )


def test_ordinary_words_of_a_secret_are_kept() -> None:
    """A Secret has a host, a port and a user, too: without them a log says nothing."""
    values = ["5432", "true", "Postgres", "abc", "/", "localhost", "main"]
    environment = {f"{FROM_SECRET}{number}": value for number, value in enumerate(values)}
    text = "abc: true for Postgres on localhost:5432 in remainder/domain"
    assert hide_credentials(text, environment) == text
    assert hide_credentials("on main.", environment) == "on (hidden)."


def test_names_that_merely_contain_one_of_a_credential_hide_nothing(tmp_path: Path) -> None:
    environment = {"PWD": "/gone/away", "OLDPWD": "/gone/too", "GIT_AUTHOR_NAME": "Jane Doe", "RAY_AUTH_MODE": "token"}
    text = "Jane Doe in /gone/away and /gone/too with a token"
    assert hide_credentials(text, environment) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("s3://AKIA:wJal/K7+MD@bucket/runs", "s3://(hidden)@bucket/runs"),
        ("s3://AKIA@bucket/x", "s3://(hidden)@bucket/x"),
        ("fatal: 'https://user:tok@host/a.git/' not found", "fatal: 'https://(hidden)@host/a.git/' not found"),
        ("https://ghp_0123@github.com/a", "https://(hidden)@github.com/a"),
        ("hdfs://u:p@nn:8020/x and ftp://u:p@ss@h", "hdfs://(hidden)@nn:8020/x and ftp://(hidden)@h"),
        ("https://a.blob/c?sv=1&sig=ab%2Fc&se=2", "https://a.blob/c?sv=1&sig=(hidden)&se=2"),
        ("s3://b/x?secret_key=K&region=eu", "s3://b/x?secret_key=(hidden)&region=eu"),
        ("https://wandb.ai/a/b/runs/c?apiKey=0f1e", "https://wandb.ai/a/b/runs/c?apiKey=(hidden)"),
        ("?X-Amz-Credential=AKIA/2026&X-Amz-Signature=00ff", "?X-Amz-Credential=(hidden)&X-Amz-Signature=(hidden)"),
        ("{'Authorization': 'Basic dXNlcjpwdw=='}", "{'Authorization': 'Basic (hidden)'}"),
        (f"Invalid header value b'Bearer {TOKEN}'", "Invalid header value b'Bearer (hidden)'"),
        (f"token {TOKEN} expired", "token (hidden) expired"),
    ],
)
def test_hides_credentials_in_urls_and_headers(text: str, expected: str) -> None:
    assert hide_credentials(text, {}) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("ssh://git@host/x", "git@host:a/b", "https://host:8443/~me/a@b", "abfss://c@acc.dfs/x", "hdfs://me@nn/x"),
        *("see https://docs.ray.io/en/x.html, or ask @ray", "s3://bucket/a and me@there", "C://x", "a: b@c", "://:@"),
        *(
            "the bearer of bad news",
            "/runs/c7?token",
            "0a" * 20,
            "http://",
            "x" * 100_000,
            "1.5-" * 50_000,
            "a://" * 9999,
        ),
    ],
)
def test_keeps_what_is_no_credential(text: str) -> None:
    assert hide_credentials(text, {}) == text


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("s3://AKIA:wJal/K7+MD@bucket/runs", "s3://bucket/runs"),
        ("s3://b/x?secret_key=K&region=eu&scheme=http", "s3://b/x?region=eu&scheme=http"),
        ("s3://b/x?secret_key=K", "s3://b/x"),
        *((uri, uri) for uri in ("/runs/a", "s3://b/x?region=eu", "abfss://c@acc.dfs/x", "gs://b/a b")),
    ],
)
def test_a_uri_without_its_credentials_leads_to_the_same_place(uri: str, expected: str) -> None:
    assert strip_credentials(uri) == expected


# As Ray 2.60 writes them, with the middle of long tracebacks left out.
RAISED_IN_MAP = """\x1b[36mray::SplitCoordinator.get()\x1b[39m (pid=27922, ip=10.0.0.2, repr=<ray.data.X>)
  File "/site-packages/ray/data/dataset.py", line 8952, in get_next
    bundle = self._base_iterator.get_next(output_split_idx)
             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
ray.exceptions.RayTaskError(UserCodeException): ray::ReadRange->MapBatches(check)() (pid=27972, ip=10.0.0.3)
  File "/etc/railhead/source/user.py", line 7, in check
    raise Odd("thirty", "very")
user.Odd: thirty is odd,
and it says so in two lines

The above exception was the direct cause of the following exception:

\x1b[36mray::ReadRange->MapBatches(check)()\x1b[39m (pid=27972, ip=10.0.0.3)
ray.exceptions.UserCodeException: UDF failed to process a data block.
Failed to apply UDF transform after 1/1 attempts (total backoff 0.0s).
To change retry attempts, backoff, or which errors are retried, configure `ray.data.DataContext.get_current()`."""
RAISED_BELOW_MAP = RAISED_IN_MAP.replace(
    "user.Odd: thirty", '  File "/x/site-packages/torch/functional.py", line 9, in einsum\n    raise\nuser.Odd: thirty'
)
CORRUPT_FILE = """\x1b[36mray::ReadImage->SplitBlocks(4)()\x1b[39m (pid=26814, ip=10.0.0.3)
  File "/site-packages/PIL/Image.py", line 3580, in open
    raise UnidentifiedImageError(msg)
PIL.UnidentifiedImageError: cannot identify image file <_io.BytesIO object at 0x7f>

The above exception was the direct cause of the following exception:

\x1b[36mray::ReadImage->SplitBlocks(4)()\x1b[39m (pid=26814, ip=10.0.0.3)
    for block in block_iter:
  File "/site-packages/ray/data/_internal/datasource/image_datasource.py", line 82, in _read_stream
    raise ValueError(f"PIL couldn't load image file at path '{path}'.") from e
ValueError: PIL couldn't load image file at path '/data/bad.png'.
Failed to read stream iteratively after 1/10 attempts (total backoff 0.0s).
To change retry attempts, backoff, or which errors are retried, configure `ray.data.DataContext.get_current()`."""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            RAISED_IN_MAP,
            "user.Odd: thirty is odd, and it says so in two lines "
            "(user.py, line 7, in check; task ReadRange->MapBatches(check))",
        ),
        (
            RAISED_BELOW_MAP,
            "user.Odd: thirty is odd, and it says so in two lines "
            "(user.py, line 7, in check; task ReadRange->MapBatches(check))",
        ),
        (
            CORRUPT_FILE,
            "ValueError: PIL couldn't load image file at path '/data/bad.png'. "
            "(image_datasource.py, line 82, in _read_stream; task ReadImage->SplitBlocks(4))",
        ),
        ("some other text", "some other text"),
        ("", ""),
    ],
    ids=["map function", "library below it", "corrupt file", "not a traceback", "nothing"],
)
def test_reports_the_cause_without_rays_traceback(text: str, message: str) -> None:
    assert describe_printed_error(text) == message


def test_recognizes_a_task_error_by_rays_class() -> None:
    kind = type("RayTaskError(ValueError)", (type("RayTaskError", (Exception,), {}), ValueError), {})
    assert is_task_error(kind("x"))
    assert not is_task_error(ValueError("x"))


def test_an_exit_names_the_users_line() -> None:
    """argparse exits in its own code."""

    def train() -> None:
        argparse.ArgumentParser().parse_args(["--unknown"])

    with pytest.raises(SystemExit) as caught:
        train()
    assert describe_exception(caught.value).startswith("SystemExit: 2 (test_exception_text.py, line ")
    assert describe_exception(caught.value).endswith(", in train)")


def test_what_an_exception_was_raised_from_follows() -> None:
    try:
        try:
            open("/data/missing.csv")  # noqa: SIM115
        except OSError as error:
            raise RuntimeError("cannot load the data") from error
    except RuntimeError as error:
        text = describe_exception(error)
    assert text.startswith("RuntimeError: cannot load the data (test_exception_text.py, line ")
    assert text.endswith("; caused by FileNotFoundError: [Errno 2] No such file or directory: '/data/missing.csv'")


def test_the_first_cause_of_a_chain_is_named_and_none_twice() -> None:
    first, second, last = KeyError("a"), ValueError("b"), RuntimeError("c")
    last.__cause__, second.__cause__ = second, first
    assert describe_exception(last) == "RuntimeError: c; caused by KeyError: 'a'"
    assert describe_exception(second) == "ValueError: b; caused by KeyError: 'a'"
    quoting = RuntimeError("step 3 raised b")
    quoting.__cause__ = ValueError("b")
    assert describe_exception(quoting) == "RuntimeError: step 3 raised b"
    first.__cause__ = last
    assert describe_exception(last).startswith("RuntimeError: c"), "a circle ends"
    silent = RuntimeError("c")
    silent.__cause__ = KeyError()
    assert describe_exception(silent) == "RuntimeError: c; caused by KeyError"


def test_the_exceptions_of_a_group_are_named() -> None:
    group = ExceptionGroup("two tasks", [ValueError("one"), ExceptionGroup("inner", [KeyError("two")])])
    text = describe_exception(group)
    assert text == (
        "ExceptionGroup: two tasks (2 sub-exceptions); ValueError: one; ExceptionGroup: inner (1 sub-exception)"
    )


def test_an_exception_of_a_group_is_named_itself_and_not_by_its_cause() -> None:
    failed = RuntimeError("shard 3")
    failed.__cause__ = KeyError("label")
    assert describe_exception(ExceptionGroup("tasks", [failed])).endswith("; RuntimeError: shard 3")


def test_a_printed_message_of_several_lines_stays_whole() -> None:
    text = """Traceback (most recent call last):
  File "/src/train.py", line 8, in main
    Model(x="a")
    ~~~~~^^^^^^^
  File "/usr/lib/python3/site-packages/pydantic/main.py", line 212, in __init__
    validated_self = self.__pydantic_validator__.validate_python(data, self_instance=self)
pydantic_core._pydantic_core.ValidationError: 1 validation error for Model
x
  Input should be a valid integer [type=int_parsing]
    For further information visit the page"""
    assert describe_printed_error(text) == (
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for Model x Input should be a valid integer "
        "[type=int_parsing] For further information visit the page (train.py, line 8, in main)"
    )
