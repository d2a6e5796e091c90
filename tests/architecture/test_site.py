"""The documentation as a site: its navigation, its pages' sizes, and that it builds strictly without the network."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tools.llms_text import NAME
from tools.site_sources import LINK, name_copy, rewrite_links

PROJECT = Path(__file__).resolve().parents[2]
DOCS = PROJECT / "docs"
CONFIGURATION = PROJECT / "mkdocs.yml"
PAGES = sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))
MOST_BYTES = 20_000
# Documents that had grown until nobody read them.
LIMITS = {"CONTRIBUTING.md": 7_000, "docs/internals/benchmarks.md": 15_000}
# Pages for contributors, and a reference with one row per field, may be longer.
LONG = ("internals/", "reference/")
FENCE = re.compile(r"^( *```).*?^ *```$", re.MULTILINE | re.DOTALL)
ITEM = re.compile(r" *(?:[-*]|\d+\.) ")
# Attributes by which a browser loads something at once, as opposed to a link that a reader follows.
LOADED = re.compile(
    r"<(?:script|img|iframe)[^>]+src=\"?(https?:[^\" >]+)|<link[^>]+stylesheet[^>]+href=\"?(https?:[^\" >]+)"
)


class Loader(yaml.SafeLoader):
    """A loader that skips the names of Python functions in mkdocs.yml."""


Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda loader, suffix, node: suffix)


def find_pages(navigation: object) -> Iterator[str]:
    if isinstance(navigation, str):
        yield navigation
    for item in (
        navigation if isinstance(navigation, list) else navigation.values() if isinstance(navigation, dict) else ()
    ):
        yield from find_pages(item)


def test_the_navigation_has_each_page_once() -> None:
    navigation = yaml.load(CONFIGURATION.read_text(), Loader)["nav"]
    assert sorted(find_pages(navigation)) == PAGES


def test_the_front_page_links_each_page() -> None:
    linked = {target.partition("#")[0] for target in re.findall(r"\]\(([^)\s]+)\)", (DOCS / "index.md").read_text())}
    assert not sorted(set(PAGES) - linked - {"index.md"})


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_one_title_and_is_short_enough_to_read(page: str) -> None:
    text = (DOCS / page).read_text()
    prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    assert text.startswith("# ")
    assert len(re.findall(r"^# ", prose, re.MULTILINE)) == 1
    if not page.startswith(LONG):
        assert len(text.encode()) <= MOST_BYTES


@pytest.mark.parametrize(("name", "most"), LIMITS.items())
def test_a_document_that_grows_by_itself_stays_short(name: str, most: int) -> None:
    assert len((PROJECT / name).read_bytes()) <= most


@pytest.mark.parametrize("page", PAGES)
def test_lists_are_lists_on_the_site_as_well(page: str) -> None:
    """MkDocs wants an empty line before a list, and four spaces where GitHub is content with fewer."""
    wrong, previous = [], ""
    for line in FENCE.sub(lambda fence: fence[1], (DOCS / page).read_text()).splitlines():
        indent, item = len(line) - len(line.lstrip()), ITEM.match(line)
        is_inside = indent > 0 and (item is not None or not previous or line.lstrip().startswith("```"))
        is_late = item is not None and indent == 0 and previous[:1] not in ("", " ") and not ITEM.match(previous)
        if (is_inside and indent % 4) or is_late:
            wrong.append(line)
        previous = line
    assert wrong == []


def test_links_out_of_the_docs_lead_to_copies_of_the_files() -> None:
    assert rewrite_links("[a](../../Makefile#x) [b](../index.md) [c](https://e.example)", "operate/install.md") == (
        f"[a](../{name_copy(PROJECT / 'Makefile')}) [b](../index.md) [c](https://e.example)"
    )
    assert rewrite_links("the [charts](../charts)", "index.md") == "the charts"


@pytest.mark.skipif(not importlib.util.find_spec("mkdocs"), reason="needs the extra `docs`; `make setup` installs it")
def test_the_site_builds_strictly_and_loads_nothing_from_the_network(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) >= len(PAGES)
    assert {found for page in pages for found in LOADED.findall(page.read_text())} == set()
    check_plain_pages(tmp_path)


def check_plain_pages(site: Path) -> None:
    """llms.txt lists each page, and its links and those of the plain pages lead to files of the site."""
    listed = [link["target"] for link in LINK.finditer((site / NAME).read_text())]
    assert sorted(listed) == sorted(name_copy(DOCS / page) for page in PAGES)
    dead = []
    for file in [site / NAME, *(site / each for each in listed)]:
        targets = [link["target"] for link in LINK.finditer(FENCE.sub("", file.read_text()))]
        dead += [(file.name, each) for each in targets if "://" not in each and not (file.parent / each).is_file()]
    assert dead == []
