"""Which module of the user's is loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from railhead.driver.container.user_code import find_hidden, is_uploaded


def test_distinguishes_mounted_modules_from_those_that_ray_unpacked() -> None:
    assert is_uploaded("/tmp/r/session_1/runtime_resources/working_dir_files/_ray_pkg_1/user.py")
    assert not is_uploaded("/etc/railhead/source/user.py")
    assert not is_uploaded(None)


@pytest.mark.parametrize("name", ["queue.py", "queue/__init__.py"])
def test_a_module_that_hides_one_of_the_jobs_code_is_named(tmp_path: Path, name: str) -> None:
    own = tmp_path / "first" / name
    own.parent.mkdir(parents=True)
    own.touch()
    folders = [str(tmp_path / "first"), str(tmp_path / "second")]
    problem = find_hidden("queue.part", "/usr/lib/python3/queue.py", folders)
    assert problem == (
        f"{name} of the job's code is shadowed by the installed /usr/lib/python3/queue.py; give it another name"
    )
    assert "a module of Python itself" in find_hidden("queue", None, folders)
    assert not find_hidden("queue", str(own), folders)
    assert not find_hidden("other", "/usr/lib/python3/other.py", folders)
    assert not find_hidden("queue", "/usr/lib/python3/queue.py", folders[::-1])
    assert not find_hidden("queue", "/usr/lib/python3/queue.py", [])
