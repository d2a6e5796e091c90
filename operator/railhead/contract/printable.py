"""Text from a job's pods without the characters that a terminal, a log line or a JSON encoder acts on."""

from __future__ import annotations

REPLACEMENT = "\ufffd"


def clean_line(text: str) -> str:
    """On one line: white space becomes spaces, and every other character that is not printable `REPLACEMENT`.

    Among those are escape sequences, changes of the writing direction, and halves of surrogate pairs.
    """
    return text if text.isprintable() else "".join(map(_clean, text))


def clean_text(text: str) -> str:
    """The same for each of its lines."""
    return text if text.isprintable() else "\n".join(clean_line(line) for line in text.split("\n"))


def _clean(character: str) -> str:
    if character.isprintable():
        return character
    return " " if character.isspace() else REPLACEMENT
