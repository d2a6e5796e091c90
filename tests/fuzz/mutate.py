"""Changes JSON at random places. The same seed makes the same changes."""

from __future__ import annotations

import json
from random import Random
from typing import Any

Object = dict[str, Any]
Place = tuple[Any, Any]  # a list or an object, and an index or a key of it

NUMBERS: tuple[Any, ...] = (
    *(0, -0.0, -1, 1, 0.5, 1.0, 2, 127, 255, 256, 4096, 65536, 10**400, 1e308, -1e308),
    *(2**31 - 1, 2**31, -(2**31) - 1, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 2**64),
)
TIMES = (
    *("0001-01-01T00:00:00Z", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59Z", "9999-12-31T23:59:59-23:59"),
    *("1970-01-01T00:00:00Z", "2026-01-01T12:00:00.123456789Z", "2026-02-30T12:00:00Z", "2026-01-01T24:00:00Z"),
    *("2026-01-01", "20260101T120000Z", "2026-W01-1", "12026-01-01T12:00:00Z", "now", "2026-01-01T12:00:00"),
)
TEXTS = (
    *("", " ", "\n", "\x00", "a\x00b", "\x1b[31m", "\r\nA: b", "\u202e", "\ufeff", "\ud800", "a\udcffb", "\U0001f600"),
    *("²", "٣", "-1", "+1", "1_000", "0x10", "1e9", "9" * 5000, "NaN", "Infinity", "null", "true"),
    *("../../etc", "/", "a/b", "a.b", "~1", "%s%n", "{0.__class__}", "{{ . }}", "$(HOME)", "'; --", "<b>", "default"),
    *("1Ei", "100E", "1n", "0.0000000001", "-1Gi", "1e", ".5", "s3://", "s3://a@b/c", "a:b", "a@b:c", "https://h/p"),
    *("a" * 63, "A" * 254, "é" * 1500, "x" * 70_000),
)
OTHERS: tuple[Any, ...] = (None, True, False, [], {}, [None], [[]], {"": ""}, {"a": None}, [{}])
ODD: tuple[Any, ...] = (*NUMBERS, *TIMES, *TEXTS, *OTHERS)
PIECES = ("", "-", ".", "é", "\x00", "/", ":", " ", "\n", "0")
ACTIONS = ("drop", "odd", "odd", "odd", "near", "near", "near", "graft", "repeat", "wrap", "nest", "add")
DEPTHS = (5, 60, 200)


class Mutator:
    """Changes copies of documents."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def mutate(self, document: Object) -> Object:
        """A copy with one to four changes."""
        changed: Object = _copy(document)
        for _ in range(self.random.choice((1, 1, 1, 2, 2, 4))):
            if places := _find_places(changed):
                parent, key = self.random.choice(places)
                self._change(parent, key, changed)
        return changed

    def mutate_text(self, document: Object) -> bytes:
        """Its JSON, also with changes that only a text can have."""
        text = json.dumps(self.mutate(document)).encode()
        action = self.random.choice(("", "", "", "cut", "byte", "twice", "bare"))
        at = self.random.randrange(len(text))
        if action == "cut":
            return text[:at]
        if action == "byte":
            return text[:at] + bytes([self.random.randrange(256)]) + text[at + 1 :]
        if action == "twice":
            return text + text
        if action == "bare":
            bare = self.random.choice((b"NaN", b"-Infinity", b"1e999", b"-", b'"', b"[" * 100_000, b"9" * 5000))
            return text.replace(self.random.choice((b"1", b"null", b"{", b'""')), bare, 1)
        return text

    def _change(self, parent: Any, key: Any, document: Object) -> None:
        action, old = self.random.choice(ACTIONS), parent[key]
        if action == "drop":
            del parent[key]
        elif action == "repeat":
            self._repeat(parent, key, old)
        elif action == "add":
            self._add(old if isinstance(old, dict | list) else parent)
        else:
            parent[key] = self._replace(action, old, document)

    def _replace(self, action: str, old: Any, document: Object) -> Any:
        if action == "near":
            return self._find_near(old)
        if action == "graft":
            other, key = self.random.choice(_find_places(document))
            return _copy(other[key])
        if action == "wrap":
            return self.random.choice(([old], {"a": old}, [old, old]))
        if action == "nest":
            return self._nest(old)
        return _copy(self.random.choice(ODD))

    def _find_near(self, old: Any) -> Any:
        """Of the same type, but unusual."""
        if isinstance(old, bool):
            return not old
        if isinstance(old, int | float):
            return self.random.choice((old + 1, old - 1, -old, *NUMBERS))
        if isinstance(old, str):
            at = self.random.randrange(len(old) + 1)
            piece = self.random.choice((*PIECES, old))
            return self.random.choice((old[:at] + piece + old[at:], old[:at], old.upper(), *TIMES, *TEXTS))
        return _copy(self.random.choice(OTHERS))

    def _repeat(self, parent: Any, key: Any, old: Any) -> None:
        if isinstance(parent, list):
            parent.extend(_copy(old) for _ in range(self.random.choice((1, 1, 2, 200))))
        else:
            parent[f"{key}{self.random.choice(('2', ' ', 'Name'))}"] = _copy(old)

    def _add(self, place: Any) -> None:
        value = _copy(self.random.choice(ODD))
        if isinstance(place, list):
            place.insert(self.random.randrange(len(place) + 1), value)
        else:
            place[self.random.choice(("unknown", "name", "uid", "", "__class__", "a" * 300, "é", "$ref"))] = value

    def _nest(self, value: Any) -> Any:
        is_list = self.random.random() < 0.5
        for _ in range(self.random.choice(DEPTHS)):
            value = [value] if is_list else {"a": value}
        return value


def _find_places(document: Object) -> list[Place]:
    """Every value of a document, as the list or object that has it and its place there; not all of a large one."""
    found: list[Place] = []
    waiting: list[Any] = [document]
    for level in waiting:
        keys = list(level if isinstance(level, dict) else range(len(level)))[:400]
        found += [(level, key) for key in keys]
        waiting += [level[key] for key in keys if isinstance(level[key], dict | list)][: 500 - len(waiting)]
    return found


def _copy(value: Any) -> Any:
    """Not by copy.deepcopy, which recurses four times per level."""
    return json.loads(json.dumps(value))
