"""Credentials in texts of libraries: hidden, and everything else is as before."""

from __future__ import annotations

import pytest

from railhead.driver.redaction import redact, strip_credentials

TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJhdWQiOiJyYWlsaGVhZCJ9.c2lnbmF0dXJl"


def test_hides_values_of_credentials_only() -> None:
    environment = {
        "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG\n",
        "AWS_SESSION_TOKEN": "wJalrXUtnFEMI/K7MDENG-and-more",
        "RAILHEAD_REPORT_TOKEN": "/var/run/railhead/token",
        "KEY": "a",
        "AWS_REGION": "eu-central-1",
    }
    text = "key wJalrXUtnFEMI/K7MDENG, wJalrXUtnFEMI/K7MDENG-and-more of a in eu-central-1, /var/run/railhead/token"
    message = redact(text, environment)
    assert message == "key (hidden), (hidden) of a in eu-central-1, /var/run/railhead/token"


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
        ("?X-Amz-Credential=AKIA/2026&X-Amz-Signature=00ff", "?X-Amz-Credential=(hidden)&X-Amz-Signature=(hidden)"),
        ("{'Authorization': 'Basic dXNlcjpwdw=='}", "{'Authorization': 'Basic (hidden)'}"),
        (f"Invalid header value b'Bearer {TOKEN}'", "Invalid header value b'Bearer (hidden)'"),
        (f"token {TOKEN} expired", "token (hidden) expired"),
    ],
)
def test_hides_credentials_in_urls_and_headers(text: str, expected: str) -> None:
    assert redact(text, {}) == expected


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
    assert redact(text, {}) == text


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
