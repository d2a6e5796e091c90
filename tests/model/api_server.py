"""An API server in memory, true to the real one in what the operator uses of it.

`tests/operator/test_model_conformance.py` sends the same requests to this one and to a real
kube-apiserver and compares the answers. `tests/model/client.py` is the KubeClient that calls it.
"""

from __future__ import annotations

import base64
import json
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import parse_qs

from railhead.api.changes import SUSPENDED
from railhead.contract.times import format_time
from railhead.kube import kinds
from railhead.kube.client import METADATA_ONLY
from railhead.kube.errors import KubeError, classify_response
from tests.model.discovery import DISCOVERY, KINDS
from tests.model.patches import BadPatch, apply_operations, matches_fields, matches_labels, merge

Object = dict[str, Any]
Place = tuple[str, str, str]  # plural, namespace, name
JOBS = kinds.TRAIN_JOB.plural
HAVE_STATUS = {JOBS, "pods", "services", "nodes", "persistentvolumes", "persistentvolumeclaims"}
# What a patch may change of the metadata, as far as used.
OPEN_METADATA = ("labels", "annotations", "finalizers")
# Fields that a list may select by, besides name and namespace.
SELECTABLE = {
    "pods": {"spec.nodeName", "status.phase"},
    "events": {"involvedObject.uid", "involvedObject.name", "reason", "type"},
}
GRACE_SECONDS = 30
FOREGROUND = "foregroundDeletion"  # the finalizer of an object that is deleted after its children
ENDED = ("Succeeded", "Failed")
REJECTED = "the server rejected our request due to an error in our request"


@dataclass(frozen=True)
class Entry:
    """One event of a watch."""

    version: int
    plural: str
    type: str
    object: Object


class Objects(dict[Place, Object]):
    """Objects by their place, and those of each kind: a schedule asks for the pods at every turn, among hundreds of
    events. They change by their place only, so `pop` and `update` are not for them."""

    def __init__(self, known: Mapping[Place, Object] | None = None) -> None:
        super().__init__()
        self._kinds: defaultdict[str, dict[Place, Object]] = defaultdict(dict)
        for place, obj in (known or {}).items():
            self[place] = obj

    def __setitem__(self, place: Place, obj: Object) -> None:
        super().__setitem__(place, obj)
        self._kinds[place[0]][place] = obj

    def __delitem__(self, place: Place) -> None:
        super().__delitem__(place)
        del self._kinds[place[0]][place]

    def kind(self, plural: str) -> Mapping[Place, Object]:
        """Returns the objects of one kind by their place, in the order in which they were created."""
        return self._kinds[plural]

    def of(self, plural: str) -> list[Object]:
        """Returns the objects of one kind, in the order in which they were created."""
        return list(self._kinds[plural].values())


@dataclass
class ModelApiServer:
    """Objects by their place, and the history of their changes. A stored object is never changed, only replaced.

    Attributes:
        log: one entry per change, as a watch reports it.
        status_patches: the operations of all JSON patches of a status of a TrainJob that were accepted.
        creates, deletes: how often each object was created, and its deletion requested.
        admission: called before a create; returns the message of a rejection, or nothing.
        deletion: the same before a delete, with the object.
        policy: the same before each request to an object, with its method, place and subresource; controllers of
            Kubernetes, which send none, are exempt. It may raise a KubeError itself.
        mutation: changes the body of each object that is created by a request.
        changed: called after each change.
        tokens: their owners, for TokenReviews.
    """

    now: Callable[[], datetime]
    objects: Objects = field(default_factory=Objects)
    log: list[Entry] = field(default_factory=list)
    version: int = 100
    status_patches: list[list[Object]] = field(default_factory=list)
    creates: Counter[tuple[str, str]] = field(default_factory=Counter)
    deletes: Counter[tuple[str, str]] = field(default_factory=Counter)
    admission: Callable[[str, Object], str] = lambda plural, body: ""
    deletion: Callable[[Object], str] = lambda obj: ""
    policy: Callable[[str, Place, str], str] = lambda method, place, subresource: ""
    mutation: Callable[[str, Object], Object] = lambda plural, body: body
    changed: Callable[[Entry], None] = lambda entry: None
    tokens: dict[str, Object] = field(default_factory=dict)
    _collected: int = -1  # the version at which the garbage collector had nothing to do

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> Object:
        """One request, as the client sends it. Raises KubeError as the client would."""
        path, _, query = path.partition("?")
        if path in DISCOVERY:
            return DISCOVERY[path]
        options = {key: values[0] for key, values in parse_qs(query).items()}
        place, subresource = _parse(path)
        if method == "POST":
            if place[0] == "tokenreviews":
                return self._review(body)
            if (place[0], subresource) == ("serviceaccounts", "token"):
                return self._issue(place, body)
            self._ask_policy(method, (*place[:2], str(body["metadata"]["name"])), subresource)
            return self.create(place, self.mutation(place[0], body), is_dry_run=options.get("dryRun") == "All")
        self._ask_policy(method, place, subresource)
        if method == "PATCH":
            return self.patch(place, body, subresource=subresource, content_type=content_type)
        if method == "DELETE":
            return self.delete(place, body or {})
        if not place[2]:
            labels, fields = options.get("labelSelector", ""), options.get("fieldSelector", "")
            found = self.list(
                place, labels, fields, limit=int(options.get("limit", 0)), token=options.get("continue", "")
            )
            return _only_metadata(found) if accept == METADATA_ONLY else found
        return self._find(place)

    def _ask_policy(self, method: str, place: Place, subresource: str) -> None:
        if denial := self.policy(method, place, subresource):
            raise _error(403, "Forbidden", f'{place[0]} "{place[2]}" is forbidden: {denial}')

    def create(self, place: Place, body: Object, *, is_dry_run: bool = False) -> Object:
        plural, namespace, _ = place
        name = str(body["metadata"]["name"])
        place = (plural, namespace, name)
        if place in self.objects:
            raise _error(409, "AlreadyExists", f'{plural} "{name}" already exists')
        rejection = self.admission(plural, body)
        if rejection:
            raise _error(403, "Forbidden", f'{plural} "{name}" is forbidden: {rejection}')
        if is_dry_run:
            return body
        obj = {**body, "kind": KINDS[plural].kind, "apiVersion": KINDS[plural].api_version}
        uid = f"{self.version:06x}00-0000-0000-0000-000000000000"
        stamp: Object = {"uid": uid, "creationTimestamp": format_time(self.now())}
        if namespace:
            stamp["namespace"] = namespace
        obj["metadata"] = {**obj["metadata"], **stamp}
        if plural in HAVE_STATUS:
            obj["status"] = {"phase": "Pending"} if plural == "pods" else {}
        if plural == JOBS:
            obj["metadata"]["generation"] = 1
            obj["status"] = {"observedGeneration": -1, "attempt": 0, "round": 0}
        if plural == "secrets":
            texts = {key: base64.b64encode(text.encode()).decode() for key, text in obj.pop("stringData", {}).items()}
            obj["data"] = {**obj.get("data", {}), **texts}
        self.creates[plural, name] += 1
        return self._store(place, obj, "ADDED")

    def put(self, obj: Object) -> Object:
        """An object from before the test, stored as it is; the test may choose its uid."""
        plural = next(plural for plural, kind in KINDS.items() if kind.kind == obj["kind"])
        metadata = {"uid": f"uid-{obj['metadata']['name']}", **obj["metadata"]}
        place = (plural, str(metadata.get("namespace") or ""), str(metadata["name"]))
        stored = {**obj, "metadata": metadata, **({"status": obj.get("status") or {}} if plural in HAVE_STATUS else {})}
        return self._store(place, stored, "MODIFIED" if place in self.objects else "ADDED")

    def since(self, version: int, plural: str) -> list[Entry]:
        """The events of a watch of one kind after this version."""
        first = bisect_right(self.log, version, key=lambda entry: entry.version)
        return [entry for entry in self.log[first:] if entry.plural == plural]

    def list(self, place: Place, labels: str = "", fields: str = "", *, limit: int = 0, token: str = "") -> Object:
        """A page of at most `limit` objects, sorted; `token` continues a list at the version of its first page."""
        plural, namespace, _ = place
        for term in filter(None, fields.split(",")):
            path = term.partition("=")[0]
            if path not in SELECTABLE.get(plural, set()) | {"metadata.name", "metadata.namespace"}:
                raise _error(400, "BadRequest", f"field label not supported: {path}")
        version, _, after = token.partition(":") if token else (str(self.version), "", "")
        known = self._objects_at(int(version)) if token else self.objects.kind(plural)
        found = {
            f"{where}/{name}": obj
            for (kind, where, name), obj in known.items()
            if kind == plural and namespace in ("", where) and matches_labels(obj, labels)
        }
        if fields:
            found = {key: obj for key, obj in found.items() if matches_fields(obj, fields)}
        keys = sorted(key for key in found if key > after)
        page = keys[: limit or None]
        rest = {"continue": f"{version}:{page[-1]}"} if len(page) < len(keys) else {}
        return {
            "kind": f"{KINDS[plural].kind}List",
            "apiVersion": KINDS[plural].api_version,
            "metadata": {"resourceVersion": version, **rest},
            "items": [found[key] for key in page],
        }

    def _objects_at(self, version: int) -> dict[Place, Object]:
        objects: dict[Place, Object] = {}
        for entry in self.log[: bisect_right(self.log, version, key=lambda entry: entry.version)]:
            metadata = entry.object["metadata"]
            place = (entry.plural, str(metadata.get("namespace") or ""), str(metadata["name"]))
            objects[place] = entry.object
            if entry.type == "DELETED":
                del objects[place]
        return objects

    def patch(
        self, place: Place, body: Any, *, subresource: str = "", content_type: str = "application/merge-patch+json"
    ) -> Object:
        old = self._find(place)
        if content_type == "application/json-patch+json":
            try:
                new = apply_operations(old, body)
            except BadPatch:
                raise _error(422, "Invalid", REJECTED) from None
            if (place[0], subresource) == (JOBS, "status"):
                self.status_patches.append(body)
        else:
            self._compare(old, body.get("metadata") or {})
            new = merge(old, body)
        if subresource == "status":
            obj = {**old, "status": new["status"]}
        else:
            obj = {**new, "metadata": _change_metadata(old["metadata"], new["metadata"])}
            if place[0] in HAVE_STATUS:
                obj["status"] = old["status"]
        if obj == old:
            return old  # no change, no new version
        is_changed = place[0] == JOBS and obj["spec"] != old["spec"]
        if is_changed and old["status"].get("phase") != "Suspended" and (frozen := _list_changed(old, obj)):
            message = f"spec: Invalid value: can change only while the job is suspended: {' '.join(frozen)}"
            raise _error(422, "Invalid", message)
        obj["metadata"] = dict(obj["metadata"])
        if is_changed:
            obj["metadata"]["generation"] += 1
        if _is_released(old, obj):
            self.remove(place)
            return {**obj, "metadata": {key: value for key, value in obj["metadata"].items() if key != "finalizers"}}
        return self._store(place, obj, "MODIFIED")

    def _compare(self, old: Object, wanted: Object) -> None:
        """A merge patch may name the expected uid and resourceVersion."""
        if wanted.get("uid") not in (None, old["metadata"]["uid"]):
            raise _error(422, "Invalid", "metadata.uid: Invalid value: field is immutable")
        if wanted.get("resourceVersion") not in (None, old["metadata"]["resourceVersion"]):
            raise _error(409, "Conflict", "the object has been modified; please apply your changes to the latest")

    def delete(self, place: Place, options: Object) -> Object:
        obj = self._find(place)
        for name, wanted in (options.get("preconditions") or {}).items():
            if wanted != obj["metadata"][name]:
                message = f"the {name} in the precondition ({wanted}) does not match the {name} in record"
                raise _error(409, "Conflict", message)
        if rejection := self.deletion(obj):
            raise _error(403, "Forbidden", f'{place[0]} "{place[2]}" is forbidden: {rejection}')
        grace = self._grace(obj, options.get("gracePeriodSeconds"))
        is_first = not obj["metadata"].get("deletionTimestamp")
        if is_first:
            self.deletes[place[0], place[2]] += 1
        foreground = [FOREGROUND] if options.get("propagationPolicy") == "Foreground" else []
        finalizers = list(dict.fromkeys([*obj["metadata"].get("finalizers", []), *foreground]))
        if finalizers and obj["kind"] != "Pod":
            more = {"finalizers": finalizers, "generation": obj["metadata"].get("generation", 0) + 1}
            return self._mark(place, obj, grace=0, **more) if is_first else obj
        if grace <= 0 and finalizers:
            return obj if obj["metadata"].get("deletionGracePeriodSeconds") == 0 else self._mark(place, obj, grace=0)
        if grace <= 0:
            gone = self.remove(place)
            return gone if place[0] in ("pods", "services") else {"kind": "Status", "status": "Success"}
        known = obj["metadata"].get("deletionGracePeriodSeconds")
        if known is not None and known <= grace:
            return obj  # already being deleted, and no more slowly
        return self._mark(place, obj, grace=grace)

    def _mark(self, place: Place, obj: Object, *, grace: int, **more: Any) -> Object:
        """Marked as deleted, it stays for its grace period or its finalizers; `more` is metadata too."""
        at = format_time(self.now() + timedelta(seconds=grace))
        stamp = {"deletionTimestamp": at, "deletionGracePeriodSeconds": grace, **more}
        return self._store(place, {**obj, "metadata": {**obj["metadata"], **stamp}}, "MODIFIED")

    def bind(self, name: str, node: str, *, namespace: str) -> Object:
        """The scheduler binds the pod to a node. pkg/registry/core/pod/storage/storage.go: assignPod."""
        place = ("pods", namespace, name)
        obj = self.objects[place]
        scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": format_time(self.now())}
        others = [each for each in obj["status"].get("conditions") or [] if each["type"] != "PodScheduled"]
        status = {**obj["status"], "conditions": [*others, scheduled]}
        spec = {**obj["spec"], "nodeName": node}
        return self._store(
            place, {**obj, "metadata": dict(obj["metadata"]), "spec": spec, "status": status}, "MODIFIED"
        )

    def remove(self, place: Place) -> Object:
        """Gone at once, a pod in two steps; what it owns follows by `collect`."""
        obj = self.objects[place]
        if obj["kind"] == "Pod" and obj["metadata"].get("deletionGracePeriodSeconds") != 0:
            obj = self._mark(place, obj, grace=0)
        del self.objects[place]
        self.version += 1
        gone = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self.version)}}
        self._record(place, "DELETED", gone)
        return gone

    def collect(self) -> bool:
        """The garbage collector: removes children of owners that are gone, even those created later, and owners whose
        foreground deletion waited for their children."""
        if self._collected == self.version:
            return False
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
            self.patch(place, {"metadata": {"finalizers": left}})
        if orphans or childless:
            return True
        self._collected = self.version
        return False

    def _grace(self, obj: Object, requested: int | None) -> int:
        """Only pods have one, and only while a process may be running."""
        if obj["kind"] != "Pod" or not obj["spec"].get("nodeName") or obj["status"].get("phase") in ENDED:
            return 0
        return int(obj["spec"].get("terminationGracePeriodSeconds", GRACE_SECONDS) if requested is None else requested)

    def _issue(self, place: Place, body: Object) -> Object:
        """A TokenRequest: a token of the account, bound to a pod."""
        _, namespace, account = place
        if account != "default" and place not in self.objects:
            self._find(place)
        bound = body["spec"]["boundObjectRef"]
        pod = self._find(("pods", namespace, bound["name"]))
        if pod["metadata"]["uid"] != bound["uid"]:
            raise _error(409, "Conflict", "the UID in the bound object reference does not match the UID in record")
        token = f"token-{len(self.tokens)}"
        self.tokens[token] = {
            "audiences": body["spec"].get("audiences") or [],
            "pod": ("pods", namespace, bound["name"]),
            "uid": bound["uid"],
            "username": f"system:serviceaccount:{namespace}:{account}",
        }
        return {**body, "status": {"token": token}}

    def _review(self, body: Object) -> Object:
        """A TokenReview: valid for one of its audiences, while its pod exists."""
        known = self.tokens.get(body["spec"]["token"])
        pod = self.objects.get(known["pod"]) if known else None
        audiences = [each for each in body["spec"]["audiences"] if known and each in known["audiences"]]
        if known is None or pod is None or pod["metadata"]["uid"] != known["uid"] or not audiences:
            return {**body, "status": {"user": {}, "error": "invalid bearer token"}}
        extra = {"pod-name": pod["metadata"]["name"], "pod-uid": known["uid"]}
        user = {
            "username": known["username"],
            "extra": {f"authentication.kubernetes.io/{key}": [value] for key, value in extra.items()},
        }
        return {**body, "status": {"authenticated": True, "audiences": audiences, "user": user}}

    def _find(self, place: Place) -> Object:
        if place not in self.objects:
            raise _error(404, "NotFound", f'{place[0]} "{place[2]}" not found')
        return self.objects[place]

    def _store(self, place: Place, obj: Object, type_: str) -> Object:
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        self.objects[place] = obj
        self._record(place, type_, obj)
        return obj

    def _record(self, place: Place, type_: str, obj: Object) -> None:
        entry = Entry(self.version, place[0], type_, obj)
        self.log.append(entry)
        self.changed(entry)


def _parse(path: str) -> tuple[Place, str]:
    """The place that a path names (without a name for a collection), and the subresource."""
    parts = path.strip("/").split("/")
    parts = parts[3:] if parts[0] == "apis" else parts[2:]
    namespace = ""
    if parts[:1] == ["namespaces"] and len(parts) > 2:
        namespace, parts = parts[1], parts[2:]
    plural, name, subresource = (*parts, "", "", "")[:3]
    if plural not in KINDS:
        raise _error(404, "NotFound", "the server could not find the requested resource")
    return (plural, namespace, name), subresource


def _list_changed(old: Object, new: Object) -> list[str]:
    """Of what the CRD lets change in phase Suspended only."""
    found = []
    for path, fields in SUSPENDED.items():
        one, other = ((obj["spec"].get(path[1:]) or {}) if path else obj["spec"] for obj in (old, new))
        found += [f"spec{path}.{field}" for field in sorted(fields) if one.get(field) != other.get(field)]
    return found


def _change_metadata(old: Object, new: Object) -> Object:
    changed = {**old, **{key: new[key] for key in OPEN_METADATA if key in new}}
    return {key: value for key, value in changed.items() if key not in OPEN_METADATA or key in new}


def _only_metadata(found: Object) -> Object:
    kind = {"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata"}
    items = [{**kind, "metadata": obj["metadata"]} for obj in found["items"]]
    return {**found, "kind": "PartialObjectMetadataList", "items": items}


def _owners_of(obj: Object) -> list[str]:
    return [owner["uid"] for owner in obj["metadata"].get("ownerReferences") or []]


def _is_released(old: Object, new: Object) -> bool:
    """Its deletion waited for the finalizers that are gone now; that of a pod waits for its kubelet, too."""
    metadata = new["metadata"]
    had, has = old["metadata"].get("finalizers"), metadata.get("finalizers")
    is_ended = new["kind"] != "Pod" or metadata.get("deletionGracePeriodSeconds") == 0
    return bool(had and not has and "deletionTimestamp" in metadata and is_ended)


def _waits_for_children(obj: Object) -> bool:
    return "deletionTimestamp" in obj["metadata"] and FOREGROUND in obj["metadata"].get("finalizers", [])


def _error(status: int, reason: str, message: str) -> KubeError:
    return classify_response(status, json.dumps({"reason": reason, "message": message}).encode())
