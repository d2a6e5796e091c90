"""Cleans the text that comes from a job's pods, of what a terminal, a log line or a JSON encoder acts on.

It also writes lists of ranks, which the operator and the driver word alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

MOST_SPANS = 8  # of ranks in a message
REPLACEMENT = "\ufffd"


def clean_line(text: str) -> str:
    """Returns the text on one line: white space becomes spaces, and `REPLACEMENT` stands for every other
    character that is not printable.

    Among those are escape sequences, changes of the writing direction, and halves of surrogate pairs.
    """
    if text.isprintable():
        return text
    return "".join(map(_clean, text))


def clean_text(text: str) -> str:
    """Cleans each line of the text in the same way, and keeps the lines apart."""
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
    shown = spans
    if len(spans) > MOST_SPANS:
        shown = spans[:3]
    left = sum(map(len, spans[len(shown) :]))
    *texts, last = [_write_span(span) for span in shown]
    if left:
        texts = [*texts, last]
        last = f"{left} more"
    if texts:
        return f"ranks {', '.join(texts)} and {last}"
    if "-" in last:
        return f"ranks {last}"
    return f"rank {last}"


def _write_span(ranks: Sequence[int]) -> str:
    if len(ranks) == 1:
        return f"{ranks[0]}"
    return f"{ranks[0]}-{ranks[-1]}"
