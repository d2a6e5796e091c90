"""The documentation on the page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from railhead.client.ui.docs_view import IMAGE, PATH, read_doc

PROJECT = Path(__file__).resolve().parents[4]
UI = PROJECT / "operator" / "railhead" / "client" / "ui"
DOCS = PROJECT / "docs"


def test_each_page_of_the_documentation_is_there() -> None:
    for path in DOCS.rglob("*.md"):
        assert read_doc(str(path.relative_to(DOCS))) == path.read_text()


@pytest.mark.parametrize(
    "path",
    ["", "index", "../README.md", "how-to/../../README.md", "/etc/passwd", "how-to/none.md", "how-to//a.md", "a\n.md"],
)
def test_nothing_else_is_read(path: str) -> None:
    assert read_doc(path) is None


def test_each_link_of_the_page_leads_to_a_title_of_the_documentation() -> None:
    links = {
        link
        for file in UI.glob("*.py")
        for link in re.findall(r'"((?:[a-z-]+/)?[a-z0-9-]+\.md(?:#[a-z0-9-]+)?)"', file.read_text())
    }
    assert len(links) > 10
    for link in links:
        page, _, anchor = link.partition("#")
        text = read_doc(page)
        assert PATH.fullmatch(page), link
        assert text is not None, link
        titles = {
            re.sub(r"[^a-z0-9 -]", "", each.lower()).replace(" ", "-") for each in re.findall(r"^#+ (.*)$", text, re.M)
        }
        assert not anchor or anchor in titles, link


def test_images_are_left_out() -> None:
    assert IMAGE.sub("", "a ![some text](../assets/ui.png) b") == "a  b"
