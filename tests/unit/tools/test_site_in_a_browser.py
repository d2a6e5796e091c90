"""The built site in a browser without a network: pages are drawn, and their scripts have no error.

RAILHEAD_SCREENSHOTS names a folder that keeps the screenshots.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

PROJECT = Path(__file__).resolve().parents[3]
BROWSER = next(filter(shutil.which, ("chromium-headless-shell", "chromium", "google-chrome")), "")
WIDTH, HEIGHT = 1280, 1600
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not BROWSER, reason="no browser: apt-get install chromium-headless-shell"),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    subprocess.run(build, cwd=PROJECT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, check=True)
    return folder


@pytest.mark.parametrize("page", ["index", "get-started/cluster", "how-to/queues"])
def test_a_page_is_drawn_and_its_scripts_have_no_error(site: Path, page: str, tmp_path: Path) -> None:
    folder = Path(os.environ.get("RAILHEAD_SCREENSHOTS", tmp_path))
    shot = folder / f"{page.replace('/', '-')}.png"
    # A name server that does not exist: what the page loads must be in its folder.
    options = [
        "--headless",
        "--no-sandbox",
        "--hide-scrollbars",
        "--host-resolver-rules=MAP * ~NOTFOUND",
        "--enable-logging=stderr",
    ]
    options += [f"--user-data-dir={tmp_path / 'profile'}", f"--window-size={WIDTH},{HEIGHT}", f"--screenshot={shot}"]
    command = [BROWSER, *options, (site / f"{page}.html").as_uri()]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    assert [line for line in done.stderr.splitlines() if "CONSOLE" in line] == []
    with Image.open(shot) as image:
        assert image.size == (WIDTH, HEIGHT)
        # Header, text and navigation: an empty page, or one without its style sheets, has no indigo above and no text.
        colors = image.convert("RGB")
        assert colors.getpixel((WIDTH // 2, 10)) == (64, 81, 181)
        columns = ((40, 280), (300, 980), (1020, 1240))
        for left, right in columns:
            assert len(colors.crop((left, 100, right, 500)).getcolors(maxcolors=10_000) or ()) > 20
