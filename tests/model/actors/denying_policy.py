"""A webhook or an admission policy that denies the operator to create, delete or patch some objects of a job, or a
webhook that does not answer: for seconds, for minutes, or until an administrator removes it.

staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/errors/statuserror.go: ToStatusErr;
.../webhook/mutating/dispatcher.go: callHooks ("failed calling webhook"); .../plugin/policy/validating/plugin.go and
dispatcher.go: Dispatch ("ValidatingAdmissionPolicy ... denied request").
"""

from __future__ import annotations

import json
from random import Random

from railhead.kube.errors import classify_response
from tests.model.actors.actor import Actor, Range
from tests.model.api_server import Place
from tests.model.world import NAMESPACE, World

DENIALS = (
    'admission webhook "guard.example.com" denied the request: pods are protected',
    "ValidatingAdmissionPolicy 'guard' with binding 'guard' denied request: failed expression: "
    "!has(oldObject.metadata.labels.keep)",
)
FAILED = (
    'Internal error occurred: failed calling webhook "guard.example.com": failed to call webhook: Post '
    '"https://guard.default.svc:443/validate?timeout=10s": dial tcp 10.96.0.7:443: connect: connection refused'
)


class DenyingPolicy(Actor):
    """Denies one kind of request for some names, which a digest of the name decides."""

    denies_requests = True

    def __init__(self, world: World, random: Random) -> None:
        self.denied = ""
        self.share = 1.0
        self.text = DENIALS[0]
        super().__init__(world, random)

    def begin(self) -> None:
        self.world.policies.append(self.judge)

    def judge(self, method: str, place: Place, subresource: str) -> str:
        """The message of a denial, or nothing."""
        plural, namespace, name = place
        wanted = ("PATCH", "trainjobs") if self.denied == "PATCH" else (self.denied, "pods")
        if (method, plural) != wanted or namespace != NAMESPACE or _share_of(name) >= self.share:
            return ""
        if self.text == FAILED:
            body = {"kind": "Status", "code": 500, "reason": "InternalError", "message": FAILED}
            raise classify_response(500, json.dumps(body).encode())
        return self.text

    def act(self) -> Range:
        if self.denied:
            self.leave()
            return 5, 600
        self.denied = self.random.choice(("POST", "DELETE", "DELETE", "PATCH"))
        self.denies_releases = self.denied != "POST"
        self.share, self.text = self.random.choice((0.2, 0.5, 1.0)), self.random.choice((*DENIALS, FAILED))
        return self.random.choice(((1, 30), (30, 900), (10_000, 10_000)))

    def leave(self) -> None:
        self.denied, self.denies_releases = "", False


def _share_of(name: str) -> float:
    return sum(name.encode()) % 100 / 100
