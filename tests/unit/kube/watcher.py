"""A small model of the API server's storage: objects with rising versions, and everything ever said of them."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

from railhead.kube.informer import View

Object = dict[str, Any]


def make_object(name: str, uid: str, version: int, **metadata: Any) -> Object:
    return {
        "metadata": {"namespace": "ns", "name": name, "uid": uid, "resourceVersion": str(version), **metadata},
    }


@dataclass
class ServerModel:
    """`log` is what a watch tells, in its order; `answers` is what writers were answered."""

    version: int = 0
    objects: dict[str, Object] = field(default_factory=dict)
    log: list[tuple[int, str, Object]] = field(default_factory=list)
    answers: list[Object] = field(default_factory=list)

    def write(self, name: str) -> None:
        """Makes the object, or changes it."""
        known = self.objects.get(name)
        uid = known["metadata"]["uid"] if known else f"{name}-{self.version}"
        self._tell("MODIFIED" if known else "ADDED", name, uid)
        self.objects[name] = self.answers[-1]

    def delete(self, name: str) -> None:
        known = self.objects.pop(name, None)
        if known is not None:
            self._tell("DELETED", name, known["metadata"]["uid"])
            self.answers.pop()  # a deleter is answered with the object as it was before

    def _tell(self, kind: str, name: str, uid: str) -> None:
        self.version += 1
        obj = make_object(name, uid, self.version)
        self.log.append((self.version, kind, obj))
        self.answers.append(obj)

    def list(self) -> tuple[int, list[Object]]:
        return self.version, [copy.deepcopy(obj) for obj in self.objects.values()]


@dataclass
class Watcher:
    """Brings a view what a client would read: lists and the watch in order, answers at any time."""

    server: ServerModel
    view: View
    seen: int = 0

    def list(self) -> None:
        self.seen, objects = self.server.list()
        self.view.replace(objects, version=self.seen)

    def watch(self, events: int) -> None:
        """At most so many events, from where the last list or watch has ended."""
        for version, kind, obj in [entry for entry in self.server.log if entry[0] > self.seen][:events]:
            self.seen = version
            if kind == "DELETED":
                self.view.drop(copy.deepcopy(obj))
            else:
                self.view.put(copy.deepcopy(obj))
