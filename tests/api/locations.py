"""Paths and URIs that no field of a TrainJob takes, those that some do, and the fields that take one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import cycle
from typing import Any

# Each is put behind a valid beginning.
UNSEEN = {
    "an escape sequence": "\x1b]0;title\x07",
    "a backspace": "\x08",
    "a newline": "\n",
    "a tab": "\t",
    "DEL": "\x7f",
    "an 8-bit escape": "\x9b31m",
    "the next line": "\x85",
    "a right-to-left override": "\u202e",
    "a right-to-left mark": "\u200f",
    "an Arabic letter mark": "\u061c",
    "an isolate": "\u2066",
    "no width": "\u200b",
    "a word joiner": "\u2060",
    "a soft hyphen": "\u00ad",
    "a line separator": "\u2028",
    "a paragraph separator": "\u2029",
    "a byte order mark": "\ufeff",
    "a tag": "\U000e0041",
    "a wide space": "\u3000",
    "no break": "\u00a0",
}
DOTS = ("/../x", "/..", "/a/../../x")
DOT = ("/./x", "/.")
DOTS_OF_URI = ("/..?region=x", "/..#x")
ENCODED_DOTS = ("/%2e%2e/x", "/.%2E/x", "/a%2f..%2fx")  # which Ray does not decode
SEEN = ("é", "e\u0301", "%", "#", "?", "=+,@", "...", "..a", "a..", ".a", "中", "€")


@dataclass(frozen=True)
class Place:
    """A field that takes a path or a URI.

    Attributes:
        change: returns what makes the smallest job have this text there.
        begins: how valid texts of it begin.
        has_pattern: whether a pattern of letters and digits judges it already.
        takes_dot: whether a segment may be `.`.
        takes_spaces: whether it may have spaces.
        is_pattern: whether it names files by a pattern, in which dots mean nothing.
    """

    change: Callable[[str], Mapping[str, Any]]
    begins: tuple[str, ...]
    has_pattern: bool = False
    takes_dot: bool = False
    takes_spaces: bool = False
    is_pattern: bool = False

    def list_bad(self, *, once: bool = False) -> list[str]:
        """Returns all texts; with `once`, each character behind one of the beginnings, in turn."""
        texts = [f"{begin}/a{each}b" for begin in self.begins for each in UNSEEN.values()]
        if once:
            texts = [f"{begin}/a{each}b" for begin, each in zip(cycle(self.begins), UNSEEN.values(), strict=False)]
        if self.is_pattern:
            return texts
        dots = DOTS if self.takes_dot else (*DOTS, *DOT)
        for begin in self.begins:
            texts += [f"{begin}{each}" for each in dots]
            if "://" in begin:
                texts += [f"{begin}{each}" for each in DOTS_OF_URI]
            if "://" in begin and not self.takes_dot:
                texts += [f"{begin}{each}" for each in ENCODED_DOTS]
        return texts

    def list_good(self) -> list[str]:
        if self.has_pattern:
            return [f"{begin}/a.b/c" for begin in self.begins]
        seen = (*SEEN, "a b", "epoch=0 val loss=0.5%") if self.takes_spaces else SEEN
        return [f"{begin}/{each}" for begin in self.begins for each in seen if "://" not in begin or each not in "#?"]


def _in_source(kind: str, **others: Any) -> Callable[[str], Mapping[str, Any]]:
    return lambda text: {"spec.source": {kind: {**others, "path": text}}}


def _git(text: str) -> Mapping[str, Any]:
    return {"spec.source": {"git": {"repository": text, "revision": "0a" * 20, "secretName": "key"}}}


def _item(text: str) -> Mapping[str, Any]:
    return {"spec.source": {"configMap": {"name": "code", "items": [{"key": "a", "path": text}]}}}


def _mount(text: str) -> Mapping[str, Any]:
    containers = [{"name": "ray", "volumeMounts": [{"name": "v", "mountPath": text}]}]
    return {"spec.podTemplate": {"spec": {"containers": containers}}}


_STORES = ("/runs", "s3://bucket/runs", "gs://bucket/runs", "abfs://c@account.dfs.core.windows.net/runs")
PLACES = {
    "spec.run.storagePath": Place(lambda text: {"spec.run.storagePath": text}, _STORES),
    "spec.datasets[train].uri": Place(
        lambda text: {"spec.datasets": {"train": {"format": "csv", "uri": text}}}, _STORES
    ),
    "a path of spec.resumeFrom": Place(
        lambda text: {"spec.resumeFrom": {"checkpoint": text}}, ("/runs",), takes_spaces=True
    ),
    "a URI of spec.resumeFrom": Place(lambda text: {"spec.resumeFrom": {"checkpoint": text}}, _STORES[1:]),
    "spec.source.git.repository": Place(
        _git, ("https://git.example", "ssh://git@git.example", "git@git.example:"), has_pattern=True
    ),
    "spec.source.git.path": Place(
        _in_source("git", repository="https://git.example/a", revision="0a" * 20), ("a",), has_pattern=True
    ),
    "spec.source.image.path": Place(_in_source("image", reference="a"), ("a",), has_pattern=True),
    "spec.source.configMap.items": Place(_item, ("a",), has_pattern=True),
    "spec.runtimeEnv.working_dir": Place(
        lambda text: {"spec.runtimeEnv": {"working_dir": text}},
        ("lib", "/opt/lib", "s3://bucket/lib"),
        takes_dot=True,
        takes_spaces=True,
    ),
    "spec.runtimeEnv.py_modules": Place(
        lambda text: {"spec.runtimeEnv": {"py_modules": ["a", text]}},
        ("lib", "s3://bucket/lib"),
        takes_dot=True,
        takes_spaces=True,
    ),
    "spec.runtimeEnv.excludes": Place(
        lambda text: {"spec.runtimeEnv": {"excludes": [text]}}, ("data",), takes_spaces=True, is_pattern=True
    ),
    "spec.podTemplate.spec.containers.volumeMounts": Place(_mount, ("/data",), takes_spaces=True),
}
