"""Railhead's documentation, from this installation: the page needs no network."""

from __future__ import annotations

import re
from importlib import resources

from nicegui import ui

from railhead.client.ui.look import label

PATH = re.compile(r"(?:[a-z-]+/)?[a-z0-9-]+\.md")
IMAGE = re.compile(r"!\[[^\]]*\]\([^)]*\)")
# The browser has looked for the title of the address before the text was there.
SCROLL = "document.getElementById(decodeURIComponent(location.hash.slice(1)))?.scrollIntoView()"
# Links within a page lead to the ids of its titles.
EXTRAS = ["fenced-code-blocks", "tables", "header-ids", "code-friendly", "cuddled-lists"]


def build_doc(path: str) -> None:
    """Adds a page of the documentation, such as how-to/see-why.md."""
    text = read_doc(path)
    if text is None:
        label("The documentation has no such page.")
        ui.link("Its first page", "/docs/index.md").classes("rh-link")
        return
    # Images are not part of an installation.
    ui.markdown(IMAGE.sub("", text), extras=EXTRAS).classes("rh-doc")
    ui.run_javascript(SCROLL)


def read_doc(path: str) -> str | None:
    """Returns the page, None if there is none."""
    if not PATH.fullmatch(path):
        return None
    file = resources.files("railhead").joinpath("data", "docs", path)
    if not file.is_file():
        return None
    return file.read_text(encoding="utf-8")
