"""Documents, code and messages use standard terms: phrases to avoid, each with its replacement.

The list is short on purpose: a phrase is here only if no sentence about Railhead needs it.
Of the tests only comments and docstrings are checked: their other strings are data.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
CHECKED = (
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "docs/**/*.md",
    "charts/*/README.md",
    "charts/**/*.yaml",
    "crds/*.yaml",
    "manifests/**/*.md",
    "manifests/**/*.yaml",
    "manifests/**/*.py",
    "operator/railhead/**/*.py",
    "operator/railhead/**/*.toml",
    "tools/**/*.py",
    "benchmarks/**/*.py",
    "tests/**/*.py",
    "Makefile",
)
BANNED = {
    r"(?:is|are|was|were|be|been) said": "is reported, is set",
    r"says? (?:it|so)(?=[.,;:)]| and )": "reports it",
    r"(?:go|goes|going|went|gone) on(?! (?:the|a|an|each|one|another)\b)": "continues, resumes, keeps ...ing",
    r"(?:is|are|was|were|be|been) told": "receives, is passed, is notified",
    r"anew": "again, from scratch",
    r"mend(?:s|ed|ing)?": "fix",
    r"(?:is|are) whole(?! numbers?)|newest whole": "is intact, newest intact",
    r"(?:for|after) so (?:long|many)|(?:with|at least) so many": "for that long, that many",
    r"in the words of|in \w+'s words|in words|by (?:its|his|their) word": "with the message of, with a clear message",
    r"last words|latest word": "last lines, last report, last renewal",
    r"stands? (?:in the|there|beside)": "is in the, is present, is next to",
    r"looks? (?:that|whether)": "checks that, checks whether",
    r"looked at at a time": "reconciled concurrently",
    r"(?:is|are) waited for": "... waits for",
    r"asked to end": "receives SIGTERM, is terminated",
    r"given back|gives? (?:its|the|their|all) pods back": "released, releases its pods",
    r"one's own": "your own",
    r"Ray's books": "Ray's cluster state",
    r"(?:is|are) refused (?:with|in)": "is rejected with",
    r"for ever": "forever",
    r"all is well": "there is no problem",
    r"ends? well|ended well": "succeeds, exits 0",
}
# Finds any of them in lower case: a fifth of the time of one search for each, which ignores case.
ANY = re.compile(rf"\b(?:{'|'.join(BANNED)})".lower().replace(" ", r"\s+"))
# Where a comment continues on the next line, and what may be between its words.
COMMENT_BREAK = re.compile(r"\n[# ]*")
BEFORE_A_STATEMENT = (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)


def find_banned(text: str) -> Iterator[tuple[int, str, str]]:
    """Line, phrase and replacement. A phrase may cross the end of a line; `code` and fences count too."""
    if not ANY.search(text.lower()):
        return
    for phrase, better in BANNED.items():
        pattern = rf"(?<![\w/-])(?:{phrase})(?![\w/-])".replace(" ", r"\s+")
        for match in re.finditer(pattern, text, re.IGNORECASE):
            yield text.count("\n", 0, match.start()) + 1, " ".join(match[0].split()), better


def extract_prose(source: str) -> str:
    """Comments and docstrings, each on its line."""
    lines = [""] * (source.count("\n") + 1)
    previous = tokenize.NEWLINE
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        is_docstring = token.type == tokenize.STRING and previous in BEFORE_A_STATEMENT
        if is_docstring or token.type == tokenize.COMMENT:
            for number, line in enumerate(token.string.splitlines(), start=token.start[0] - 1):
                lines[number] = line.lstrip("# ")
        if token.type not in (tokenize.NL, tokenize.COMMENT):
            previous = token.type
    return "\n".join(lines)


def read_checked(path: Path) -> str:
    text = path.read_text()
    if not path.is_relative_to(PROJECT / "tests"):
        return text
    # Tokens take ten times as long as a search: only a file that has a phrase somewhere is divided into them.
    return extract_prose(text) if ANY.search(COMMENT_BREAK.sub("\n", text.lower())) else ""


def checked_files() -> list[Path]:
    return sorted(path for pattern in CHECKED for path in PROJECT.glob(pattern))


def test_no_file_uses_a_banned_phrase() -> None:
    found = []
    for path in checked_files():
        for line, phrase, better in sorted(find_banned(read_checked(path))):
            found.append(f"{path.relative_to(PROJECT)}:{line}: {phrase!r}; better: {better}")
    assert not found, "\n" + "\n".join(found)


def test_every_file_pattern_matches() -> None:
    assert [pattern for pattern in CHECKED if not list(PROJECT.glob(pattern))] == []


def test_finds_a_phrase_across_lines_with_its_line() -> None:
    assert list(find_banned("The job\nfails. It goes\non.")) == [(2, "goes on", "continues, resumes, keeps ...ing")]
    assert list(find_banned("test_it_goes_on, 2-anew, it goes one step, the label goes on the pod")) == []


def test_comments_and_docstrings_are_prose_and_other_strings_are_not() -> None:
    source = '"""A job\n    is whole."""\n\nx = [  # starts anew, and\n    # goes on\n    "for ever",\n]\ny = "anew"\n'
    found = [(line, phrase) for line, phrase, _ in find_banned(extract_prose(source))]
    assert sorted(found) == [(2, "is whole"), (4, "anew"), (5, "goes on")]
