"""A LimitRange that somebody adds: it fills in limits, or rejects the pods that exceed its maximum.

plugin/pkg/admission/limitranger/admission.go: mergePodResourceRequirements, maxConstraint, PodValidateLimitFunc. A
default below a request is a 422 of the pod's validation (pkg/apis/core/validation/validation.go:
ValidateContainerResourceRequirements).
"""

from __future__ import annotations

import copy
import json
from random import Random

from railhead.kube.errors import classify_response
from tests.model.actors.actor import Actor, Range
from tests.model.api_server import Object, Place
from tests.model.world import NAMESPACE, World

MAXIMUM = (
    "[maximum cpu usage per Container is 500m, but limit is 1, maximum memory usage per Container is 1Gi, but limit is "
    "2Gi]"
)
INVALID = (
    'Pod "{name}" is invalid: spec.containers[0].resources.requests: Invalid value: "1": must be less than or equal to '
    "cpu limit of 500m"
)


class LimitRange(Actor):
    """A default for the CPU limit, and for some minutes limits that the job's pods exceed."""

    denies_requests = True

    def __init__(self, world: World, random: Random) -> None:
        self.mode = ""
        super().__init__(world, random)

    def begin(self) -> None:
        self.world.mutations.append(self.fill_in)
        self.world.policies.append(self.judge)

    def fill_in(self, body: Object) -> Object:
        if self.mode != "default":
            return body
        body = copy.deepcopy(body)
        for container in body["spec"]["containers"]:
            limits = container.setdefault("resources", {}).setdefault("limits", {})
            limits.setdefault("cpu", "8")
        return body

    def judge(self, method: str, place: Place, subresource: str) -> str:
        plural, namespace, name = place
        if (method, plural, namespace) != ("POST", "pods", NAMESPACE):
            return ""
        if self.mode == "invalid":
            body = {"kind": "Status", "code": 422, "reason": "Invalid", "message": INVALID.format(name=name)}
            raise classify_response(422, json.dumps(body).encode())
        return MAXIMUM if self.mode == "maximum" else ""

    def act(self) -> Range:
        self.mode = "" if self.mode else self.random.choice(("default", "default", "maximum", "invalid"))
        return 10, 900

    def leave(self) -> None:
        self.mode = ""
