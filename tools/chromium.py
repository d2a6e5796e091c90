"""The browser for the tests of the page: that of this machine, else Debian's, which root can install."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
TRIES = 8
PAUSE_SECONDS = 15.0
LOCK_SECONDS = 300  # that apt waits for another installation


class NoBrowser(RuntimeError):
    """There is no browser and none can be installed; the message says what to do."""


def resolve_chromium(echo: Callable[[str], None]) -> str:
    """Returns the program; that of RAILHEAD_CHROMIUM if it is set.

    Raises:
        NoBrowser: with what to do.
    """
    named = os.environ.get("RAILHEAD_CHROMIUM")
    if named:
        if os.access(named, os.X_OK):
            return named
        raise NoBrowser(f"RAILHEAD_CHROMIUM={named} is not an executable file")
    found = _find()
    if found is None and shutil.which("apt-get") and os.geteuid() == 0:
        echo("installing Debian's chromium for the tests of the page")
        _install()
        found = _find()
    if found is None:
        raise NoBrowser("no Chromium is installed; install the package chromium, or set RAILHEAD_CHROMIUM to a Chrome")
    return found


def _find() -> str | None:
    return next((path for path in map(shutil.which, NAMES) if path), None)


def _install() -> None:
    """Tries several times: another program may hold the locks of apt for a while."""
    for number in range(TRIES):
        if number > 0:
            time.sleep(PAUSE_SECONDS)
        _run_apt(["update"])
        _run_apt(["install", "--yes", "--no-install-recommends", "chromium"])
        if _find() is not None:
            return


def _run_apt(command: list[str]) -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    options = ["-qq", "-o", f"DPkg::Lock::Timeout={LOCK_SECONDS}"]
    subprocess.run(["apt-get", *options, *command], env=environment, check=False, stdout=subprocess.DEVNULL)
