"""One operator in a simulated cluster with three running jobs, and what it may do when one of them is hostile.

The neighbour shares the namespace of the hostile job, and the namesake has its name in another namespace, and even the
same tag in the names of its pods. Both are left alone whatever happens to the hostile one.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from railhead.api import names
from railhead.api.goodput import MOST
from railhead.api.status import JobStatus
from railhead.controller.observe import owner_uid
from tests.model.api_server import ModelApiServer, Objects
from tests.model.client import Request
from tests.model.faults import WRITES, Faults
from tests.model.operator import JOBS, PODS, ModelOperator
from tests.model.play import Runner
from tests.model.world import NAMESPACE, World

Object = dict[str, Any]
NAME, NEIGHBOUR, OTHER_NAMESPACE = "digits", "neighbour", "other"
PASSES = 4
NEW_STATUS = {"observedGeneration": -1, "attempt": 0, "round": 0}  # the API server's defaults
DNS = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
INT32, INT64 = range(-(2**31), 2**31), range(-(2**63), 2**63)
_WORLDS: list[World] = []  # made once: it takes longer than a case


class Rig:
    """Each case begins with the same cluster and a new operator that has nothing to do.

    Attributes:
        job: the hostile one as it was before.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.now = world.now
        self.api = ModelApiServer(lambda: self.now, objects=Objects(world.api.objects), version=world.api.version)
        self.operator = ModelOperator(self.api, Faults(yields=lambda: 0), time=lambda: self.now)
        self.job: Object = self.api.objects[JOBS, NAMESPACE, NAME]
        self.uid: str = self.job["metadata"]["uid"]
        self._own_pods = {pod["metadata"]["uid"] for pod in self.pods if owner_uid(pod) == self.uid}

    @property
    def pods(self) -> list[Object]:
        """Of all jobs."""
        return [obj for (plural, *_), obj in self.api.objects.items() if plural == PODS]

    @property
    def _own_uids(self) -> set[str]:
        """Of the job and of what it owns in the API server."""
        return {self.uid, *(obj["metadata"]["uid"] for obj in self.api.objects.values() if owner_uid(obj) == self.uid)}

    @property
    def writes(self) -> list[Request]:
        return [each for each in self.operator.client.asked if each.verb in WRITES]

    def change_job(self, job: Object) -> None:
        """The API server has this version of it, and its watch delivers it."""
        generation = self.job["metadata"]["generation"] + 1  # or the operator would not read the spec
        self.api.put(_as_sent({**job, "metadata": {**job["metadata"], "generation": generation}}))

    def renew_job(self, job: Object) -> None:
        """The same, and it has neither a status nor children yet."""
        for place, obj in list(self.api.objects.items()):
            if owner_uid(obj) == self.uid:
                self.api.remove(place)
        self.change_job({**job, "status": NEW_STATUS})

    def deliver_pod(self, pod: Object) -> None:
        """The pod as it comes from the watch; the API server answers with what it had before."""
        pod = _as_sent(pod)
        if owner_uid(pod) == self.uid and pod["metadata"].get("namespace") == NAMESPACE:
            self._own_pods.add(str(pod["metadata"].get("uid")))
        self.api.version += 1
        newer = {**pod, "metadata": {**pod["metadata"], "resourceVersion": str(self.api.version)}}
        self.operator.see(PODS, "MODIFIED", newer)

    async def run(self) -> None:
        """Some passes; no alarm rings."""
        for _ in range(PASSES * 3):
            self.operator.watch(PODS)
            self.operator.watch(JOBS)
            if self.operator.is_idle:
                return
            await self.operator.reconcile()

    def check(self) -> None:
        """Every write is about the hostile job, and within the CRD's bounds."""
        for request in self.writes:
            self._check_write(request)

    def _check_write(self, request: Request) -> None:
        name, path = request.name, request.path.partition("?")[0]
        assert f"/namespaces/{NAMESPACE}/" in path, request
        prefix = f"{NAME}-{names.tag(self.uid)}"
        if request.plural == JOBS:
            assert path.endswith((f"/{NAME}/status", f"/{NAME}")), request
            tests = request.body if request.verb == "patch/status" else [_as_test(request.body["preconditions"])]
            assert {"op": "test", "path": "/metadata/uid", "value": self.uid} in tests, request
            check_status(request)
        elif request.plural == "events":
            event = request.body if request.verb == "create" else self.api.objects["events", NAMESPACE, name]
            assert event["involvedObject"]["uid"] == self.uid, request
        elif request.verb == "create":
            self._check_create(request, prefix)
        elif request.plural == PODS:
            assert request.verb == "delete" and request.body["preconditions"]["uid"] in self._own_pods, request
        else:
            assert request.verb == "delete", request
            is_own = name == prefix or name.startswith(f"{prefix}-")
            assert is_own or (request.plural == "configmaps" and name.startswith("railhead-driver-")), request

    def _check_create(self, request: Request, prefix: str) -> None:
        name, limit = request.name, 63 if request.plural in (PODS, "services") else 253
        assert DNS.fullmatch(name) and len(name) <= limit, request
        if name not in (self.operator.loop.settings.bundle_name, names.HEADS_SERVICE):
            assert name == prefix or name.startswith(f"{prefix}-"), request
            owner = f"{prefix}-input-" if request.plural == "secrets" else NAME
            [found] = request.body["metadata"]["ownerReferences"]
            assert found["name"].startswith(owner) and found["uid"] in self._own_uids, request


def check_status(request: Request) -> None:
    """The API server takes the fields."""
    for operation in request.body if isinstance(request.body, list) else []:
        if operation["op"] == "add" and operation["value"] != {}:
            field = operation["path"].removeprefix("/status/")
            JobStatus.model_validate({field: operation["value"]})
            allowed = {"observedGeneration": INT64, "goodput": range(MOST + 1)}.get(field, INT32)
            assert all(number in allowed for number in _numbers_in(operation["value"])), operation


def _as_sent(obj: Object) -> Object:
    """The API server sends UTF-8, which has no halves of surrogate pairs."""
    sent: Object = json.loads(json.dumps(obj, ensure_ascii=False).encode(errors="replace"))
    return sent


def _as_test(preconditions: Object) -> Object:
    return {"op": "test", "path": "/metadata/uid", "value": preconditions["uid"]}


def _numbers_in(value: Any) -> Iterator[int]:
    """But for generations, which have 64 bits."""
    if isinstance(value, dict | list):
        for each in value if isinstance(value, list) else (value[key] for key in value if key != "observedGeneration"):
            yield from _numbers_in(each)
    elif isinstance(value, int) and not isinstance(value, bool):
        yield value


async def make_rig() -> Rig:
    """A new operator that has nothing to do."""
    if not _WORLDS:
        _WORLDS.append(await _make_world())
    rig = Rig(_WORLDS[0])
    await rig.operator.start()
    await rig.run()
    assert not rig.writes, "the operator has nothing to do"
    return rig


async def _make_world() -> World:
    """Three jobs that train: the neighbour and the namesake are copies of the first one."""
    world = World(epochs=10**6)
    world.apply(NAME)
    runner = Runner(world, Faults())
    while world.status().get("phase") != "Running":
        await runner.run_operator()
        world.step()
        world.tick(1)
    world.reports.clear()
    for (plural, _, name), obj in list(world.api.objects.items()):
        if plural != "events":
            neighbour = name.replace(NAME, NEIGHBOUR)
            world.api.objects[plural, NAMESPACE, neighbour] = _copy(obj, "a", {NAME: NEIGHBOUR})
            moved = {f'"{NAMESPACE}"': f'"{OTHER_NAMESPACE}"'}
            world.api.objects[plural, OTHER_NAMESPACE, name] = _copy(obj, "b", moved)
    return world


def _copy(obj: Object, digit: str, replaced: dict[str, str]) -> Object:
    """The same of another job, whose uid differs in its end only."""
    text = json.dumps(obj).replace("-000000000000", f"-00000000000{digit}")
    for old, new in replaced.items():
        text = text.replace(old, new)
    copied: Object = json.loads(text)
    return copied


class _Errors(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(record)


@contextmanager
def no_errors() -> Iterator[None]:
    """An error that the operator catches and logs is raised again."""
    handler, logger = _Errors(), logging.getLogger("railhead")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
    for record in handler.found:
        raise AssertionError(record.getMessage()) from (record.exc_info[1] if record.exc_info else None)
