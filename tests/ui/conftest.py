"""A real browser, and a page in a process of its own: NiceGUI keeps one page per process."""

from __future__ import annotations

import fcntl
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Error, Page, Request, ViewportSize, sync_playwright
from tools.chromium import resolve_chromium

WIDE = ViewportSize(width=1280, height=800)
NARROW = ViewportSize(width=390, height=844)


@pytest.fixture(scope="module")  # Playwright's event loop counts as running until it ends: no coroutine could be tested
def browser() -> Iterator[Browser]:
    with (Path(tempfile.gettempdir()) / "railhead-chromium.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several processes of pytest-xdist may want to install it
        program = resolve_chromium(print)
    with sync_playwright() as playwright:
        # The sandbox needs rights that a container may lack; the pages are ours.
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@dataclass
class Visit:
    """What a test does with a browser's window.

    Attributes:
        problems: what the browser's console said, and requests to elsewhere.
    """

    page: Page
    base: str
    problems: list[str] = field(default_factory=list)

    def open(self, path: str) -> Page:
        self.page.goto(self.base + path)
        return self.page

    def note_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(message.text)

    def note_request(self, request: Request) -> None:
        here = (self.base, self.base.replace("http:", "ws:"), "data:")
        if not request.url.startswith(here):
            self.problems.append(f"a request to {request.url}")

    def note_error(self, error: Error) -> None:
        self.problems.append(str(error))

    def begin(self) -> None:
        self.page.on("console", self.note_console)
        self.page.on("request", self.note_request)
        self.page.on("pageerror", self.note_error)

    def end(self) -> None:
        """Leaves the window as the next test wants it."""
        self.page.goto("about:blank")
        self.page.remove_listener("console", self.note_console)
        self.page.remove_listener("request", self.note_request)
        self.page.remove_listener("pageerror", self.note_error)


Visiting = Callable[..., Visit]


@dataclass
class Server:
    """A page of `scenes.py`. `address`: with the token."""

    address: str

    @property
    def base(self) -> str:
        return self.address.partition("/?")[0]


@contextmanager
def serve(scene: str, folder: Path) -> Iterator[Server]:
    command = [sys.executable, "-m", "tests.ui.serve_fixed", scene, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            address = process.stdout.readline().strip()
            assert address, "the page did not start; its error is above"
            yield Server(address)
        finally:
            process.kill()


@pytest.fixture(scope="module")
def five(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serve("five", tmp_path_factory.mktemp("five")) as server:
        yield server


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serve("hostile", tmp_path_factory.mktemp("hostile")) as server:
        yield server


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serve("many", tmp_path_factory.mktemp("many")) as server:
        yield server


Windows = dict[tuple[bool, bool], Page]


@pytest.fixture(scope="module")
def windows(browser: Browser) -> Iterator[Windows]:
    """The browser's windows, by narrow and dark: each keeps the page's megabytes of scripts for later tests."""
    opened: Windows = {}
    yield opened
    for page in opened.values():
        page.context.close()


def open_window(browser: Browser, *, is_narrow: bool, is_dark: bool) -> Page:
    viewport = WIDE
    if is_narrow:
        viewport = NARROW
    scheme: Literal["dark", "light"] = "light"
    if is_dark:
        scheme = "dark"
    page = browser.new_context(viewport=viewport, color_scheme=scheme).new_page()
    page.set_default_timeout(60_000)
    return page


@pytest.fixture
def visit(browser: Browser, windows: Windows) -> Iterator[Visiting]:
    """Takes a window, logged in and without a page; afterwards its console must be empty."""
    visits: list[Visit] = []

    def visit(server: Server, *, is_narrow: bool = False, is_dark: bool = False) -> Visit:
        look = (is_narrow, is_dark)
        if look not in windows:
            windows[look] = open_window(browser, is_narrow=is_narrow, is_dark=is_dark)
        made = Visit(windows[look], server.base)
        visits.append(made)
        made.begin()
        # It answers with the cookie of the session; the browser need not draw the page of all jobs in each test.
        logged_in = made.page.context.request.get(server.address, max_redirects=0)
        assert logged_in.status == 303, logged_in.text()
        return made

    yield visit
    for each in visits:
        each.end()
    # Each test logs in by itself.
    for page in windows.values():
        page.context.clear_cookies()
    assert [problem for each in visits for problem in each.problems] == []
