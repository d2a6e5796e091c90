"""Which module of the user's is loaded."""

from __future__ import annotations

from railhead.driver.container.user_code import is_uploaded


def test_distinguishes_mounted_modules_from_those_that_ray_unpacked() -> None:
    assert is_uploaded("/tmp/r/session_1/runtime_resources/working_dir_files/_ray_pkg_1/user.py")
    assert not is_uploaded("/etc/railhead/source/user.py")
    assert not is_uploaded(None)
