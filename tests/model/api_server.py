"""An API server in memory, true to the real one in what the operator uses of it.

`tests/operator/test_model_conformance.py` sends the same requests to this one and to a real
kube-apiserver and compares the answers.
"""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import parse_qs

from railhead.api.times import format_time
from railhead.kube.errors import KubeError, classify_response

Object = dict[str, Any]
Place = tuple[str, str, str]  # plural, namespace, name
KINDS = {
    "pods": "Pod",
    "services": "Service",
    "secrets": "Secret",
    "configmaps": "ConfigMap",
    "events": "Event",
    "trainjobs": "TrainJob",
}
GRACE_SECONDS = 30
FOREGROUND = "foregroundDeletion"  # the finalizer of who is deleted after its children
ENDED = ("Succeeded", "Failed")


@dataclass(frozen=True)
class Entry:
    """What a watch tells."""

    version: int
    plural: str
    type: str
    object: Object


@dataclass
class ModelApiServer:
    """Objects by their place, and everything ever said of them. A stored object is never changed, only replaced.

    Attributes:
        log: one entry per change, as a watch tells it.
        creates, deletes: how often each object was made, and told to go.
        admission: asked before a create; the words of a refusal, or nothing.
        changed: told of each change, after it.
    """

    now: Callable[[], datetime]
    objects: dict[Place, Object] = field(default_factory=dict)
    log: list[Entry] = field(default_factory=list)
    version: int = 100
    creates: Counter[tuple[str, str]] = field(default_factory=Counter)
    deletes: Counter[tuple[str, str]] = field(default_factory=Counter)
    admission: Callable[[str, Object], str] = lambda plural, body: ""
    changed: Callable[[Entry], None] = lambda entry: None

    def request(self, method: str, path: str, body: Any = None, *, content_type: str = "application/json") -> Object:
        """One request, as the client sends it. Raises KubeError as the client would."""
        path, _, query = path.partition("?")
        options = {key: values[0] for key, values in parse_qs(query).items()}
        place, subresource = _parse(path)
        if method == "POST":
            return self.create(place, body)
        if method == "PATCH":
            return self.patch(place, body, subresource=subresource, content_type=content_type)
        if method == "DELETE":
            return self.delete(place, body or {})
        if not place[2]:
            return self.list(place, options.get("labelSelector", ""))
        return self._find(place)

    def create(self, place: Place, body: Object) -> Object:
        plural, namespace, _ = place
        name = str(body["metadata"]["name"])
        place = (plural, namespace, name)
        if place in self.objects:
            raise _error(409, "AlreadyExists", f'{plural} "{name}" already exists')
        refusal = self.admission(plural, body)
        if refusal:
            raise _error(403, "Forbidden", f'{plural} "{name}" is forbidden: {refusal}')
        obj = {**body, "kind": KINDS[plural]}
        uid = f"{self.version:06x}00-0000-0000-0000-000000000000"
        stamp = {"namespace": namespace, "uid": uid, "creationTimestamp": format_time(self.now())}
        obj["metadata"] = {**obj["metadata"], **stamp}
        if plural == "trainjobs":
            obj["metadata"]["generation"] = 1
            obj["status"] = {"observedGeneration": -1, "attempt": 0, "round": 0}
        if plural == "pods":
            obj["status"] = {"phase": "Pending"}
        self.creates[plural, name] += 1
        return self._store(place, obj, "ADDED")

    def list(self, place: Place, selector: str) -> Object:
        plural, namespace, _ = place
        found = [
            obj
            for (kind, where, _), obj in self.objects.items()
            if kind == plural and namespace in ("", where) and _matches(obj, selector)
        ]
        return {"metadata": {"resourceVersion": str(self.version)}, "items": found}

    def patch(self, place: Place, body: Any, *, subresource: str, content_type: str) -> Object:
        old = self._find(place)
        part = "status" if subresource == "status" else "spec"
        obj = {**old, "metadata": dict(old["metadata"]), part: copy.deepcopy(old.get(part) or {})}
        if content_type == "application/json-patch+json":
            for operation in body:
                _apply(obj, operation)
        else:
            _merge(obj, {part: body.get(part) or {}})
        obj = {**old, part: obj[part]}  # the other part is not this request's affair
        if place[0] == "events":  # neither spec nor status
            obj = {**old, **body}
        elif not subresource and "finalizers" in body.get("metadata", {}):
            obj["metadata"] = {**old["metadata"], "finalizers": body["metadata"]["finalizers"]}
        if obj == old:
            return old  # no change, no new version
        obj["metadata"] = dict(obj["metadata"])
        if place[0] == "trainjobs" and obj["spec"] != old["spec"]:
            obj["metadata"]["generation"] += 1
        if obj["kind"] != "Pod" and "deletionTimestamp" in obj["metadata"] and not obj["metadata"]["finalizers"]:
            self.remove(place)
            return {**obj, "metadata": {key: value for key, value in obj["metadata"].items() if key != "finalizers"}}
        return self._store(place, obj, "MODIFIED")

    def delete(self, place: Place, options: Object) -> Object:
        obj = self._find(place)
        wanted = (options.get("preconditions") or {}).get("uid")
        if wanted and wanted != obj["metadata"]["uid"]:
            words = f"the UID in the precondition ({wanted}) does not match the UID in record"
            raise _error(409, "Conflict", words)
        grace = self._grace(obj, options.get("gracePeriodSeconds"))
        is_first = not obj["metadata"].get("deletionTimestamp")
        if is_first:
            self.deletes[place[0], place[2]] += 1
        foreground = [FOREGROUND] if options.get("propagationPolicy") == "Foreground" else []
        finalizers = list(dict.fromkeys([*obj["metadata"].get("finalizers", []), *foreground]))
        if finalizers and obj["kind"] != "Pod":
            more = {"finalizers": finalizers, "generation": obj["metadata"]["generation"] + 1}
            return self._mark(place, obj, grace=0, **more) if is_first else obj
        if grace <= 0:
            return self.remove(place)
        known = obj["metadata"].get("deletionGracePeriodSeconds")
        if known is not None and known <= grace:
            return obj  # it is on its way out already, and not more slowly
        return self._mark(place, obj, grace=grace)

    def _mark(self, place: Place, obj: Object, *, grace: int, **more: Any) -> Object:
        """It is told to go, and stays for its grace or for who has a finalizer on it; `more` is metadata too."""
        at = format_time(self.now() + timedelta(seconds=grace))
        stamp = {"deletionTimestamp": at, "deletionGracePeriodSeconds": grace, **more}
        return self._store(place, {**obj, "metadata": {**obj["metadata"], **stamp}}, "MODIFIED")

    def bind(self, name: str, node: str, *, namespace: str) -> None:
        """The scheduler has found a node for the pod."""
        place = ("pods", namespace, name)
        obj = self.objects[place]
        stamped = {**obj, "metadata": dict(obj["metadata"]), "spec": {**obj["spec"], "nodeName": node}}
        self._store(place, stamped, "MODIFIED")

    def remove(self, place: Place) -> Object:
        """Gone at once, a pod in two steps; what it owns follows by `collect`."""
        obj = self.objects[place]
        if obj["kind"] == "Pod" and obj["metadata"].get("deletionGracePeriodSeconds") != 0:
            obj = self._mark(place, obj, grace=0)
        del self.objects[place]
        self.version += 1
        gone = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self.version)}}
        self._tell(place, "DELETED", gone)
        return gone

    def collect(self) -> bool:
        """The garbage collector: children of owners that are gone, also of those that came after their owner went,
        and of those that wait for them."""
        waiting = {obj["metadata"]["uid"]: place for place, obj in self.objects.items() if _waits_for_children(obj)}
        uids = {obj["metadata"]["uid"] for obj in self.objects.values()} - waiting.keys()
        orphans = [
            place
            for place, obj in self.objects.items()
            if not obj["metadata"].get("deletionTimestamp") and any(uid not in uids for uid in _owners_of(obj))
        ]
        for place in orphans:
            self.delete(place, {})
        owning = {uid for obj in self.objects.values() for uid in _owners_of(obj)}
        childless = [place for uid, place in waiting.items() if uid not in owning]
        for place in childless:
            left = [each for each in self.objects[place]["metadata"]["finalizers"] if each != FOREGROUND]
            merge = {"metadata": {"finalizers": left}}
            self.patch(place, merge, subresource="", content_type="application/merge-patch+json")
        return bool(orphans or childless)

    def _grace(self, obj: Object, asked: int | None) -> int:
        """Only of pods, and only while there may be a process to wait for."""
        if obj["kind"] != "Pod" or not obj["spec"].get("nodeName") or obj["status"].get("phase") in ENDED:
            return 0
        return int(obj["spec"].get("terminationGracePeriodSeconds", GRACE_SECONDS) if asked is None else asked)

    def _find(self, place: Place) -> Object:
        if place not in self.objects:
            raise _error(404, "NotFound", f'{place[0]} "{place[2]}" not found')
        return self.objects[place]

    def _store(self, place: Place, obj: Object, type_: str) -> Object:
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        self.objects[place] = obj
        self._tell(place, type_, obj)
        return obj

    def _tell(self, place: Place, type_: str, obj: Object) -> None:
        entry = Entry(self.version, place[0], type_, obj)
        self.log.append(entry)
        self.changed(entry)


def _parse(path: str) -> tuple[Place, str]:
    """The place that a path names (without a name for a collection), and the subresource."""
    parts = path.strip("/").split("/")
    parts = parts[3:] if parts[0] == "apis" else parts[2:]
    namespace = ""
    if parts[0] == "namespaces":
        namespace, parts = parts[1], parts[2:]
    plural, name, subresource = (*parts, "", "")[:3]
    return (plural, namespace, name), subresource


def _owners_of(obj: Object) -> list[str]:
    return [owner["uid"] for owner in obj["metadata"].get("ownerReferences") or []]


def _waits_for_children(obj: Object) -> bool:
    return "deletionTimestamp" in obj["metadata"] and FOREGROUND in obj["metadata"].get("finalizers", [])


def _error(status: int, reason: str, message: str) -> KubeError:
    return classify_response(status, json.dumps({"reason": reason, "message": message}).encode())


def _apply(obj: Object, operation: Object) -> None:
    """One operation of a JSON Patch; one that cannot be done refuses the whole patch."""
    *parents, last = operation["path"].strip("/").split("/")
    holder: Any = obj
    for part in parents:
        holder = holder.get(part) if isinstance(holder, dict) else None
    kind, value = operation["op"], operation.get("value")
    if not isinstance(holder, dict):
        raise _error(422, "Invalid", "the server rejected our request due to an error in our request")
    if kind == "add":
        holder[last] = value
        return
    is_there = last in holder
    if not is_there or (kind == "test" and holder[last] != value):
        raise _error(422, "Invalid", "the server rejected our request due to an error in our request")
    if kind == "remove":
        del holder[last]


def _merge(obj: Object, patch: Object) -> None:
    for key, value in patch.items():
        if value is None:
            obj.pop(key, None)
        elif isinstance(value, dict):
            _merge(obj.setdefault(key, {}), value)
        else:
            obj[key] = copy.deepcopy(value)


def _matches(obj: Object, selector: str) -> bool:
    """Of selectors as far as used: `key` and `key=value`, joined by commas."""
    labels = obj["metadata"].get("labels") or {}
    for term in filter(None, selector.split(",")):
        key, equals, value = term.partition("=")
        if key not in labels or (equals and labels[key] != value):
            return False
    return True
