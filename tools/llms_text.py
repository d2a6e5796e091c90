"""A hook of MkDocs: gives the site each page as plain Markdown, and llms.txt, which lists them for language models.

The format is that of https://llmstxt.org: a title, a summary, and a list of links per section.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tools.site_sources import DOCS, LINK, PROJECT, name_copy

Navigation = list[dict[str, "str | Navigation"]]
NAME = "llms.txt"
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def build_list(title: str, summary: str, navigation: Navigation) -> str:
    """Returns the text of llms.txt, with the sections and titles of the site's navigation."""
    lines = [f"# {title}", "", f"> {summary}"]
    for entry in navigation:
        [(name, pages)] = entry.items()
        lines += ["", f"## {name}", ""]
        for label, page in [(name, pages)] if isinstance(pages, str) else find_pages(pages):
            about = read_summary((DOCS / page).read_text())
            lines.append(f"- [{label}]({name_copy(DOCS / page)})" + (f": {about}" if about else ""))
    return "\n".join(lines) + "\n"


def find_pages(navigation: Navigation) -> Iterator[tuple[str, str]]:
    """Yields the title and the path of each page."""
    for entry in navigation:
        for name, value in entry.items():
            if isinstance(value, str):
                yield name, value
            else:
                yield from find_pages(value)


def read_summary(markdown: str) -> str:
    """Returns the first sentence of a page's first paragraph, without links; "" if it does not begin with text."""
    blocks = FENCE.sub("", markdown).split("\n\n")[1:]
    first = next((block for block in blocks if block.strip() and not block.lstrip().startswith(("<!--", "!["))), "")
    if first.lstrip().startswith(("#", "|", "-", "```")):
        return ""
    plain = LINK.sub(lambda link: link["text"], " ".join(first.split()))
    return re.split(r"(?<=[.:]) (?=[A-Z`])", plain)[0].rstrip(":")


def make_plain(markdown: str, page: str) -> str:
    """Returns a page with its links led to other copies; of a link to a folder its text remains."""
    copy = name_copy(DOCS / page)

    def replace(link: re.Match[str]) -> str:
        path = ((DOCS / page).parent / link["target"]).resolve()
        if "://" in link["target"] or not path.exists():
            return link[0]
        if path.is_dir():
            return link["text"]
        if path.suffix == ".md" or not path.is_relative_to(DOCS):
            return f"[{link['text']}]({link['target']}.txt{link['anchor'] or ''})"  # copies lie as their originals do
        return f"[{link['text']}]({'../' * copy.count('/')}{path.relative_to(DOCS)})"

    return LINK.sub(replace, markdown)


def on_files(files, config):  # type: ignore[no-untyped-def] # MkDocs' types are not there without the extra `docs`
    """Adds llms.txt and the plain pages to the site."""
    from mkdocs.structure.files import File as SiteFile

    text = build_list(config["site_name"], config["site_description"], config["nav"])
    files.append(SiteFile.generated(config, NAME, content=text))
    for page in sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")):
        plain = make_plain((DOCS / page).read_text(), page)
        files.append(SiteFile.generated(config, name_copy(PROJECT / "docs" / page), content=plain))
    return files
