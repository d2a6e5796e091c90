"""A hook of MkDocs: gives the site a copy of each file outside `docs` that a page links to.

In the checkout such a link leads to the file itself; on the site it leads to the copy, a plain text file in `source/`.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Protocol

PROJECT = Path(__file__).resolve().parents[1]
DOCS = PROJECT / "docs"
SOURCES = "source"
LINK = re.compile(r"\[(?P<text>[^\]]*)\]\((?P<target>[^)\s#]+)(?P<anchor>#[^)\s]+)?\)")


class File(Protocol):
    """A file of the site, as MkDocs describes it."""

    src_uri: str


class Page(Protocol):
    """A page of the site, as MkDocs describes it."""

    file: File


def find_outside(page: Path, target: str) -> Path | None:
    """Returns the file or folder of the project outside `docs` to which the link of a page leads, if it does."""
    path = (page.parent / target).resolve()
    is_outside = "://" not in target and path.is_relative_to(PROJECT) and not path.is_relative_to(DOCS)
    return path if is_outside and path.exists() else None


def name_copy(path: Path) -> str:
    """Returns where the site has the copy. The suffix lets a browser show it, and MkDocs not render it."""
    return f"{SOURCES}/{path.relative_to(PROJECT)}.txt"


def rewrite_links(markdown: str, page: str) -> str:
    """Returns the page with its links out of `docs` led to the copies. Of a link to a folder its text remains."""

    def replace(link: re.Match[str]) -> str:
        path = find_outside(DOCS / page, link["target"])
        if path is None:
            return link[0]
        if path.is_dir():
            return link["text"]
        up = "../" * (len(PurePosixPath(page).parts) - 1)
        return f"[{link['text']}]({up}{name_copy(path)})"

    return LINK.sub(replace, markdown)


def on_files(files, config):  # type: ignore[no-untyped-def] # MkDocs' types are not there without the extra `docs`
    """Adds the copies to the site."""
    from mkdocs.structure.files import File as SiteFile

    known = set()
    for page in sorted(DOCS.rglob("*.md")):
        for link in LINK.finditer(page.read_text()):
            path = find_outside(page, link["target"])
            if path is not None and path.is_file() and path not in known:
                known.add(path)
                files.append(SiteFile.generated(config, name_copy(path), content=path.read_text()))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Rewrites a page before MkDocs renders it."""
    return rewrite_links(markdown, page.file.src_uri)
