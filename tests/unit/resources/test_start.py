"""The command of a pod: the driver runs only if it is the operator's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from railhead.contract.digest import digest
from railhead.resources.bundle import build_bundle
from railhead.resources.folders import BUNDLE_PATH, TERMINATION_LOG
from railhead.resources.start import build_start

DRIVER = build_bundle()


def start(tmp_path: Path, role: str, *, wanted: str, driver: bytes = DRIVER) -> subprocess.CompletedProcess[str]:
    mounted = tmp_path / "mounted.pyz"
    mounted.write_bytes(driver)
    folders = {BUNDLE_PATH: str(mounted), TERMINATION_LOG: str(tmp_path / "log")}
    command = [folders.get(part, part) for part in build_start(role, digest=wanted, folder=f"{tmp_path}/temp")]
    assert command[0] == "python3"
    (tmp_path / "hashlib.py").write_text("raise SystemExit('a module of the working directory')")
    return subprocess.run(
        [sys.executable, *command[1:]], capture_output=True, text=True, check=False, timeout=60, cwd=tmp_path
    )


def test_the_driver_runs_from_a_copy_that_nobody_else_can_change(tmp_path: Path) -> None:
    run = start(tmp_path, "nothing", wanted=digest(DRIVER))
    assert "unknown role 'nothing'" in run.stderr
    assert (tmp_path / "temp" / "railhead.pyz").read_bytes() == DRIVER


@pytest.mark.parametrize("driver", [b"print('foreign code')", DRIVER + b"x", b""])
def test_a_foreign_driver_does_not_run(tmp_path: Path, driver: bytes) -> None:
    run = start(tmp_path, "head", wanted=digest(DRIVER), driver=driver)
    message = f"railhead: somebody replaced the ConfigMap with the driver, which ends with {digest(DRIVER)}; delete it"
    assert (run.returncode, run.stdout, run.stderr.strip()) == (66, "", message)
    assert (tmp_path / "log").read_text() == message
    assert not (tmp_path / "temp").exists()
