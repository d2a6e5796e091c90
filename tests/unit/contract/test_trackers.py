"""The id of a run in trackers, and the links that are shown."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railhead.contract.trackers import MAX_ID, MAX_LINK, is_link, name_tracked_run

UID = "1c6f0c8e-0000-4000-8000-000000000000"
OTHER = "2d7a1d9f-0000-4000-8000-000000000000"
LONG = "a-name-that-leaves-no-room-for-anything-else-in-the-id"


def test_a_run_with_the_jobs_own_name_has_that_as_its_id() -> None:
    assert name_tracked_run("digits-1c6f0c8e", UID) == "digits-1c6f0c8e"
    assert name_tracked_run("digits-1c6f0c8e-fit-2", UID) == "digits-1c6f0c8e-fit-2"


def test_runs_of_one_name_that_two_jobs_have_begun_differ() -> None:
    assert name_tracked_run("digits", UID) == "digits-1c6f0c8e"
    assert name_tracked_run("digits", OTHER) == "digits-2d7a1d9f"


@pytest.mark.parametrize(
    ("one", "two"),
    [("a/b", "a:b"), ("a b", "a-b"), ("é", "è"), (f"{LONG}-1", f"{LONG}-2"), (f"{LONG}-1c6f0c8e", f"{LONG}-fit-2")],
)
def test_names_that_a_tracker_does_not_take_still_differ(one: str, two: str) -> None:
    assert name_tracked_run(one, UID) != name_tracked_run(two, UID)


@given(st.text(), st.uuids())
def test_every_tracker_takes_the_id(name: str, uid: object) -> None:
    found = name_tracked_run(name, str(uid))
    assert re.fullmatch(r"[0-9A-Za-z._-]+", found) and len(found) <= MAX_ID
    assert str(uid)[:8] in found
    assert found == name_tracked_run(name, str(uid))


@pytest.mark.parametrize(
    "url",
    [
        "https://wandb.ai/team/digits/runs/digits-1c6f0c8e",
        "http://127.0.0.1:5000/#/experiments/1/runs/0f1e2d?workspace=a%20b",
        "http://[::1]:5000/",
        "http://mlflow_server.ml:5000",
        "https://tensorboard.example.com/?runFilter=^digits$#timeseries",
        "https://host.example.com./a(b)'c",
    ],
)
def test_an_address_of_a_page_is_a_link(url: str) -> None:
    assert is_link(url)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "javascript:alert(1)",
        "JAVASCRIPT://example.com/%0aalert(1)",
        "data:text/html,<script>alert(1)</script>",
        "file:///etc/passwd",
        "ftp://example.com/",
        "//example.com/",
        "example.com",
        "https://",
        "https:///path",
        "https://user@example.com/",
        "https://user:password@example.com/",
        "https://example.com\\@evil.example.com/",
        "https://example.com:port/",
        "https://example.com:123456/",
        "https://exa mple.com/",
        "https://example.com/a b",
        "https://example.com/\n",
        "https://example.com/\x1b[31m",
        "https://example.com/\u202egpj.exe",
        "https://ex\u0430mple.com/",
        'https://example.com/"onclick="alert(1)',
        "https://example.com/<b>",
        "https://example.com/`",
        f"https://example.com/{'a' * MAX_LINK}",
    ],
)
def test_anything_else_is_none(url: str) -> None:
    assert not is_link(url)


@given(st.text() | st.from_regex(r"https?://[!-~]{0,40}", fullmatch=True))
def test_a_link_is_what_a_browser_takes_it_for(text: str) -> None:
    if not is_link(text):
        return
    parts = urlsplit(text)
    assert parts.scheme in ("http", "https") and parts.hostname and parts.username is None
    assert text.isascii() and text.isprintable() and not set(text) & set(' "<>\\`')
