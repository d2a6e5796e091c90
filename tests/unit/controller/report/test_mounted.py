"""A mounted certificate: the folder's content is presented, and what is wrong with it is reported."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from railhead.controller.report.mounted import BadFolder, follow_folder, read_certificates
from railhead.pki import Pair, issue, make_ca

NOW = datetime.now(UTC) - timedelta(days=1)
AUTHORITY = make_ca("somebody", now=NOW, days=30)


class EndOfTest(Exception):
    """The test has seen enough."""


def make_pair() -> Pair:
    return issue(AUTHORITY, "railhead-report", now=NOW, days=20, names=["localhost"])


def fill(folder: Path, pair: Pair, *, authority: Pair = AUTHORITY) -> None:
    texts = {"tls.crt": pair.certificate, "tls.key": pair.key, "ca.crt": authority.certificate}
    for name, text in texts.items():
        (folder / name).write_text(text)


def test_a_folder_with_a_certificate_is_read(tmp_path: Path) -> None:
    pair = make_pair()
    fill(tmp_path, pair)
    found = read_certificates(tmp_path)
    assert found.server == pair
    assert found.ca.certificate == AUTHORITY.certificate


@pytest.mark.parametrize("name", ["tls.crt", "tls.key", "ca.crt"])
def test_the_error_names_a_missing_or_empty_file(tmp_path: Path, name: str) -> None:
    fill(tmp_path, make_pair())
    (tmp_path / name).write_text("\n")
    with pytest.raises(BadFolder, match=rf"--report-tls: .*{name} is empty"):
        read_certificates(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(BadFolder, match=rf"--report-tls: .*{name} cannot be read .*mount a Secret with it"):
        read_certificates(tmp_path)


def test_a_key_of_another_certificate_is_refused(tmp_path: Path) -> None:
    fill(tmp_path, Pair(make_pair().certificate, make_pair().key))
    with pytest.raises(BadFolder, match=r"tls\.crt and tls\.key in .* do not match"):
        read_certificates(tmp_path)


async def test_a_renewed_certificate_is_presented_once_and_a_bad_one_never(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = make_pair(), make_pair()
    fill(tmp_path, first)
    steps: Iterator[Callable[[], None]] = iter(
        [lambda: None, (tmp_path / "tls.key").unlink, lambda: fill(tmp_path, second), lambda: None]
    )

    async def sleep(seconds: float) -> None:
        step = next(steps, None)
        if step is None:
            raise EndOfTest
        step()

    presented: list[Pair] = []
    with pytest.raises(EndOfTest):
        await follow_folder(tmp_path, read_certificates(tmp_path), presented.append, sleep=sleep)
    assert presented == [second]
    assert "keeps its certificate" in caplog.text


async def test_a_change_of_the_ca_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    fill(tmp_path, make_pair())
    known = read_certificates(tmp_path)
    other = make_ca("somebody else", now=NOW, days=30)
    fill(tmp_path, issue(other, "railhead-report", now=NOW, days=20, names=["localhost"]), authority=other)
    calls = iter([None])

    async def sleep(seconds: float) -> None:
        if next(calls, EndOfTest) is EndOfTest:
            raise EndOfTest

    with pytest.raises(EndOfTest):
        await follow_folder(tmp_path, known, lambda pair: None, sleep=sleep)
    assert "running jobs trust the one they started with" in caplog.text
