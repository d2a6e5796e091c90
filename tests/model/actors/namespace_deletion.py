"""Somebody deletes the jobs' namespace, and with it the operator's Role there; later both are made again.

pkg/controller/namespace/deletion/namespaced_resources_deleter.go: deleteAllContent deletes all objects, resource by
resource; plugin/pkg/admission/namespace/lifecycle/admission.go: Admit rejects creates meanwhile; without the
RoleBinding each request is a 403 (staging/src/k8s.io/apiserver/pkg/endpoints/handlers/responsewriters/errors.go).
"""

from __future__ import annotations

from random import Random
from typing import Any

from railhead.kube.errors import KubeError
from tests.model.actors.actor import Actor, Range
from tests.model.api_server import Place
from tests.model.world import NAMESPACE, World

TERMINATING = "unable to create new content in namespace default because it is being terminated"
NO_ROLE = 'User "system:serviceaccount:railhead:railhead" cannot do this in the namespace "default"'


class NamespaceDeletion(Actor):
    """Once, with a job of the same name afterwards."""

    first: Range = (5, 900)
    denies_requests = True

    def __init__(self, world: World, random: Random) -> None:
        self.specs: dict[str, dict[str, Any]] = {}
        self.is_terminating = self.has_no_role = False
        super().__init__(world, random)

    def begin(self) -> None:
        self.world.policies.append(self.judge)

    def judge(self, method: str, place: Place, subresource: str) -> str:
        if place[1] != NAMESPACE or not self.is_terminating:
            return ""
        if self.has_no_role:
            return NO_ROLE
        return TERMINATING if method == "POST" else ""

    def act(self) -> Range:
        if self.specs:
            self.leave()
            return 10_000, 10_000
        self.is_terminating, self.has_no_role = True, self.random.random() < 0.5
        self.specs = {job["metadata"]["name"]: job["spec"] for job in self.jobs()}
        plurals = sorted({plural for plural, namespace, _ in self.world.api.objects if namespace == NAMESPACE})
        self.random.shuffle(plurals)
        for wanted in plurals:
            for place in [p for p in self.world.api.objects if p[:2] == (wanted, NAMESPACE)]:
                self._delete(place)
        for name in self.specs:
            self.world.forget_run(name)
        return 60, 600

    def _delete(self, place: Place) -> None:
        """What it owns may have gone with its owner already."""
        pod = self.world.api.objects.get(place)
        if pod is not None and place[0] == "pods":
            self.disturb(pod)
        try:
            self.world.api.delete(place, {})
        except KubeError:
            return

    def leave(self) -> None:
        self.is_terminating = False
        for name, spec in self.specs.items():
            if self.world.job(name) is None:
                self.world.api.create(("trainjobs", NAMESPACE, name), {"metadata": {"name": name}, "spec": spec})
        self.specs = {}
