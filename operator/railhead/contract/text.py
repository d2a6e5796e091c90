"""Text that both sides write alike: times as the API server writes them (RFC 3339, UTC, whole seconds), lines from a
job's pods without the characters that a terminal, a log line or a JSON encoder acts on, and digests of what a pod
mounts, which the operator puts into names and pods and the driver checks.
"""

from __future__ import annotations

from typing import Iterable

MOST_SPANS = 8  # of ranks in a message
REPLACEMENT = "\ufffd"


def clean_line(text: str) -> str:
    """Puts the text on one line: white space becomes spaces, and every other character that is not printable
    `REPLACEMENT`.

    Among those are escape sequences, changes of the writing direction, and halves of surrogate pairs.
    """
    if text.isprintable():
        return text
    return "".join(map(_clean, text))


def clean_text(text: str) -> str:
    """Cleans each line of the text."""
    if text.isprintable():
        return text
    return "\n".join(clean_line(line) for line in text.split("\n"))


def _clean(character: str) -> str:
    if character.isprintable():
        return character
    if character.isspace():
        return " "
    return REPLACEMENT


def write_ranks(ranks: Iterable[int]) -> str:
    """Returns for example: rank 3; ranks 37 and 41; ranks 0-36, 38 and 40-511; ranks 0, 2, 4 and 253 more."""
    spans: list[list[int]] = []
    for rank in sorted(ranks):
        if spans and spans[-1][-1] == rank - 1:
            spans[-1].append(rank)
        else:
            spans.append([rank])
    shown = spans if len(spans) <= MOST_SPANS else spans[:3]
    left = sum(map(len, spans[len(shown) :]))
    *texts, last = [f"{each[0]}-{each[-1]}" if len(each) > 1 else f"{each[0]}" for each in shown]
    if left:
        texts = [*texts, last]
        last = f"{left} more"
    name = "ranks" if texts or "-" in last else "rank"
    if texts:
        return f"{name} {', '.join(texts)} and {last}"
    return f"{name} {last}"
