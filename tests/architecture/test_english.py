"""Documents, code and messages use standard terms: phrases to avoid, each with its replacement.

The list is short on purpose: a phrase is here only if no sentence about Railhead needs it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
CHECKED = (
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "docs/*.md",
    "charts/*/README.md",
    "charts/**/*.yaml",
    "crds/*.yaml",
    "manifests/**/*.md",
    "manifests/**/*.yaml",
    "manifests/**/*.py",
    "operator/railhead/**/*.py",
    "tools/**/*.py",
    "benchmarks/**/*.py",
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


def find_banned(text: str) -> Iterator[tuple[int, str, str]]:
    """Line, phrase and replacement. A phrase may cross the end of a line; `code` and fences count too."""
    for phrase, better in BANNED.items():
        pattern = rf"(?<![\w/-])(?:{phrase})(?![\w/-])".replace(" ", r"\s+")
        for match in re.finditer(pattern, text, re.IGNORECASE):
            yield text.count("\n", 0, match.start()) + 1, " ".join(match[0].split()), better


def checked_files() -> list[Path]:
    return sorted(path for pattern in CHECKED for path in PROJECT.glob(pattern))


@pytest.mark.parametrize("path", checked_files(), ids=lambda path: str(path.relative_to(PROJECT)))
def test_no_file_uses_a_banned_phrase(path: Path) -> None:
    name = path.relative_to(PROJECT)
    found = sorted(find_banned(path.read_text()))
    assert not found, "\n" + "\n".join(f"{name}:{line}: {phrase!r}; better: {better}" for line, phrase, better in found)


def test_every_file_pattern_matches() -> None:
    assert [pattern for pattern in CHECKED if not list(PROJECT.glob(pattern))] == []


def test_finds_a_phrase_across_lines_with_its_line() -> None:
    assert list(find_banned("The job\nfails. It goes\non.")) == [(2, "goes on", "continues, resumes, keeps ...ing")]
    assert list(find_banned("test_it_goes_on, 2-anew, it goes one step, the label goes on the pod")) == []
