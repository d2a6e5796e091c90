"""Feeds a view with what a client of the model's API server reads."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

from railhead.kube.informer import View, version_of
from tests.model.api_server import ModelApiServer, Object

NAMESPACE = "ns"
PODS = ("pods", NAMESPACE, "")


def make_object(name: str, uid: str, version: int, **metadata: Any) -> Object:
    return {
        "metadata": {"namespace": NAMESPACE, "name": name, "uid": uid, "resourceVersion": str(version), **metadata},
    }


def replace_all(view: View[Object], objects: list[Object], *, version: int) -> None:
    view.replace(dict(view.read(obj) for obj in objects), version=version)


@dataclass
class Watcher:
    """Delivers lists and watch events in order, and answers at any time.

    Attributes:
        answers: the answers to writes and deletes.
    """

    api: ModelApiServer
    view: View[Object]
    seen: int = 0
    answers: list[Object] = field(default_factory=list)

    def write(self, name: str) -> None:
        """Create the pod, or change it."""
        place = ("pods", NAMESPACE, name)
        if place in self.api.objects:
            answer = self.api.patch(place, {"metadata": {"labels": {"version": str(self.api.version)}}})
        else:
            answer = self.api.create(place, {"metadata": {"name": name}, "spec": {}})
        self.answers.append(answer)

    def delete(self, name: str) -> None:
        place = ("pods", NAMESPACE, name)
        if place in self.api.objects:
            self.answers.append(self.api.delete(place, {}))

    def list(self) -> None:
        page = self.api.list(PODS)
        self.seen = version_of(page)
        replace_all(self.view, copy.deepcopy(page["items"]), version=self.seen)

    def watch(self, events: int) -> None:
        """Deliver at most this many events, from where the last list or watch ended."""
        for entry in self.api.since(self.seen, "pods")[:events]:
            self.seen = entry.version
            if entry.type == "DELETED":
                self.view.drop(copy.deepcopy(entry.object))
            else:
                self.view.put(copy.deepcopy(entry.object))
