"""The documentation on the page."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pytest
from nicegui.elements.markdown import prepare_content

from railhead.client.explain.causes import read_causes
from railhead.client.ui.docs_view import EXTRAS, IMAGE, PATH, read_doc

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
    links |= {cause.doc for rows in read_causes().values() for cause in rows.values()}
    assert len(links) > 30
    for link in links:
        page, _, anchor = link.partition("#")
        assert PATH.fullmatch(page), link
        assert not anchor or anchor in list_ids(page), link


@functools.cache
def list_ids(page: str) -> set[str]:
    """Returns the ids of the titles, as the browser gets them."""
    text = read_doc(page)
    assert text is not None, page
    return set(re.findall(r'<h\d id="([^"]*)"', prepare_content(text, " ".join(EXTRAS))))


def test_images_are_left_out() -> None:
    assert IMAGE.sub("", "a ![some text](../assets/ui.png) b") == "a  b"
