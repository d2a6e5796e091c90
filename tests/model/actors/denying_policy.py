"""A webhook, an admission policy or an admission plugin that denies the operator to create, delete or patch some
objects of a job, or a webhook that does not answer: for seconds, for minutes, or until an administrator removes it.

staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/errors/statuserror.go: ToStatusErr, which keeps the webhook's
code; .../webhook/mutating/dispatcher.go: callHooks ("failed calling webhook"); .../plugin/policy/validating/plugin.go
and dispatcher.go: Dispatch ("ValidatingAdmissionPolicy ... denied request"); controller-runtime,
pkg/webhook/admission/response.go: Errored; Kyverno, pkg/webhooks/utils/block.go; Gatekeeper, pkg/webhook/policy.go;
plugin/pkg/admission/podtolerationrestriction/admission.go, whose error has no code; etcd, rpctypes: ErrRequestTooLarge.
"""

from __future__ import annotations

import json
from random import Random
from typing import NamedTuple

from railhead.kube.errors import KubeError, classify_response
from tests.model.actors.actor import Actor, Range
from tests.model.api_server import Place
from tests.model.world import NAMESPACE, World

CODES = (400, 403, 404, 409, 422, 429, 500, 503)  # a webhook may answer any of them, with its own reason
REASONS = {404: "NotFound", 409: "AlreadyExists", 429: "TooManyRequests", 500: "InternalError"}


class Answer(NamedTuple):
    """What a denied request gets."""

    code: int
    text: str

    def to_error(self) -> KubeError:
        """The error as the client raises it."""
        body = {"kind": "Status", "code": self.code, "reason": REASONS.get(self.code, ""), "message": self.text}
        return classify_response(self.code, json.dumps(body).encode())


WEBHOOKS = (
    'admission webhook "guard.example.com" denied the request: pods are protected',
    'admission webhook "mpod.example.com" denied the request: Node "a" not found',
    'admission webhook "guard.example.com" denied the request without explanation',
    'admission webhook "validate.kyverno.svc-fail" denied the request: resource Pod/default/x was blocked due to the '
    "following policies: require-team",
    'admission webhook "validation.gatekeeper.sh" denied the request: [team] you must provide labels: {"team"}',
)
# Denials by their words. AlreadyExists is the reason of the webhook, too.
DENIALS = (
    *(Answer(code, text) for code in CODES for text in WEBHOOKS),
    *(
        Answer(
            code,
            f"pods \"x\" is forbidden: ValidatingAdmissionPolicy 'guard' with binding 'guard' denied request: {why}",
        )
        for code in (401, 403, 413, 422)
        for why in ("failed expression: !has(oldObject.metadata.labels.keep)", "not found: parameters")
    ),
    Answer(500, "etcdserver: request is too large"),
)
FAILED = Answer(
    500,
    'Internal error occurred: failed calling webhook "guard.example.com": failed to call webhook: Post '
    '"https://guard.default.svc:443/validate?timeout=10s": dial tcp 10.96.0.7:443: connect: connection refused',
)
# Only that they last tells them from an API server in trouble.
UNEXPLAINED = (
    Answer(
        500,
        "pod tolerations (possibly merged with namespace default tolerations) conflict with its namespace whitelist",
    ),
    Answer(503, "upstream policy engine: no decision"),
)

PLURALS = {
    "POST": ("pods", "pods", "configmaps", "secrets", "services"),
    "DELETE": ("pods",),
    "PATCH": ("trainjobs",),
}


class DenyingPolicy(Actor):
    """Denies one kind of request for some names, which a digest of the name decides."""

    denies_requests = True

    def __init__(self, world: World, random: Random) -> None:
        self.denied = ""
        self.plural = ""
        self.share = 1.0
        self.answer = DENIALS[0]
        super().__init__(world, random)

    def begin(self) -> None:
        self.world.policies.append(self.judge)

    def judge(self, method: str, place: Place, subresource: str) -> str:
        """Raises the denial, or returns nothing."""
        plural, namespace, name = place
        if (method, plural) != (self.denied, self.plural) or namespace != NAMESPACE or _share_of(name) >= self.share:
            return ""
        raise self.answer.to_error()

    def act(self) -> Range:
        if self.denied:
            self.leave()
            return 5, 600
        self.denied = self.random.choice(("POST", "DELETE", "DELETE", "PATCH"))
        self.plural = self.random.choice(PLURALS[self.denied])
        self.denies_releases = self.denied != "POST"
        self.share = self.random.choice((0.2, 0.5, 1.0))
        self.answer = self.random.choice((self.random.choice(DENIALS), FAILED, self.random.choice(UNEXPLAINED)))
        return self.random.choice(((1, 30), (30, 900), (10_000, 10_000)))

    def leave(self) -> None:
        self.denied, self.denies_releases = "", False


def _share_of(name: str) -> float:
    return sum(name.encode()) % 100 / 100
