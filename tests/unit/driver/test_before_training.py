"""What is looked at before training: the module, the storage, the head's name."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from railhead.contract.failure import FailureClass
from railhead.driver.errors import JobRefused, Unreachable
from railhead.driver.node.hosts import LONGEST_WAIT, compute_wait, find_address, parse_hosts
from railhead.driver.storage.prepare import prepare_storage
from railhead.driver.user_code.check import check_folder, find_problem


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("def f(): pass", ""),
        ("async def f(): pass", ""),
        ("from other import f", ""),
        ("from other import g as f", ""),
        ("from other import *", ""),
        ("import f.g", ""),
        ("if 1:\n    f = lambda: 0", ""),
        ("def __getattr__(name): return 1", ""),
        ("globals()['f'] = 1", ""),
        ("setattr(__import__('sys').modules[__name__], 'f', 1)", ""),
        ("def g(): pass", "has no attribute 'f'"),
        ("import ray.f\n'f'\ng.f = 1", "has no attribute 'f'"),
        ("def f(:", "SyntaxError: invalid syntax (user.py, line 1)"),
    ],
)
def test_module_of_the_source(tmp_path: Path, code: str, words: str) -> None:
    (tmp_path / "user.py").write_text(code)
    problem = find_problem("user:f", source=str(tmp_path))
    assert words in problem
    assert bool(problem) == bool(words)


def test_what_the_head_cannot_know_is_left_to_the_workers(tmp_path: Path) -> None:
    assert find_problem("absent:f", source=str(tmp_path)) == ""
    assert find_problem("absent:f", source=None) == ""


def test_a_folder_that_the_sources_image_lacks(tmp_path: Path) -> None:
    check_folder(str(tmp_path))
    check_folder(None)
    with pytest.raises(JobRefused, match=r"^spec\.source\.image\.path: the image has no such folder") as caught:
        check_folder(str(tmp_path / "src"))
    assert caught.value.failure.reason == "SourceNotFound"


def test_a_package_of_the_source(tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").write_text("")
    (tmp_path / "pkg" / "mod.py").write_text("class Trainer:\n    def fit(self): ...")
    assert find_problem("pkg.mod:Trainer.fit", source=str(tmp_path)) == ""
    assert "has no attribute 'f'" in find_problem("pkg.mod:f", source=str(tmp_path))


def test_storage_is_written_and_left_clean(tmp_path: Path) -> None:
    assert prepare_storage(str(tmp_path / "runs"), run_name="r") == f"{tmp_path}/runs/r"
    assert list((tmp_path / "runs" / "r").iterdir()) == []


def test_storage_that_is_a_file_is_refused_with_the_very_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(JobRefused, match=r"run\.storagePath .* NotADirectoryError"):
        prepare_storage(str(tmp_path / "file"), run_name="r")


def test_storage_by_uri(tmp_path: Path) -> None:
    assert prepare_storage(f"file://{tmp_path}/runs", run_name="r") == f"file://{tmp_path}/runs/r"
    with pytest.raises(JobRefused, match=r"run\.storagePath nosuch://bucket"):
        prepare_storage("nosuch://bucket", run_name="r")


def test_hosts_file_comes_first(tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("# a comment\n127.0.0.5 other head.ns.svc # mine\n")
    assert find_address("head.ns.svc", hosts_file=str(hosts)) == "127.0.0.5"
    assert parse_hosts("127.0.0.5 head\n127.0.0.6 head\n", "head") == "127.0.0.6"
    assert find_address("127.0.0.9", hosts_file=str(tmp_path / "absent")) == "127.0.0.9"


def test_waits_are_short_at_first_and_bounded() -> None:
    waits = [compute_wait(n) for n in range(1, 200)]
    assert waits[0] <= 0.1
    assert waits == sorted(waits)
    assert max(waits) == LONGEST_WAIT


def test_a_full_disk_is_worth_another_try_and_nothing_is_left_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_full(path: Path, data: bytes) -> int:
        path.touch()
        assert data, "a full disk takes an empty file"
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", run_full)
    with pytest.raises(Unreachable, match=r"run\.storagePath .* No space left on device") as caught:
        prepare_storage(str(tmp_path), run_name="r")
    assert caught.value.failure.class_ is FailureClass.INFRASTRUCTURE
    assert list((tmp_path / "r").iterdir()) == []
