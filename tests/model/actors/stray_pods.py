"""Pods that look like a job's own: copies of its pods with any of their labels and with or without their owner.

staging/src/k8s.io/kubectl/pkg/cmd/debug/debug.go: `--copy-to` drops the owner, `--keep-labels` keeps the labels;
`kubectl get pod -o yaml | sed | kubectl apply -f -` keeps both.
"""

from __future__ import annotations

import copy
from random import Random

from railhead.api import names
from railhead.kube.errors import KubeError
from tests.model.actors.actor import Actor, Range
from tests.model.api_server import Object
from tests.model.world import INERT, NAMESPACE, World, name_of

CHANGES = {
    names.LABEL_ROLE: (names.HEAD, names.WORKER, "other"),
    names.LABEL_ATTEMPT: ("0", "1", "2", "99", "x"),
    names.LABEL_SLOT: ("0", "1", "7", "x"),
    names.LABEL_ROUND: ("0", "1", "99"),
}


class StrayPods(Actor):
    """Makes one after the other, and deletes some."""

    def __init__(self, world: World, random: Random) -> None:
        self.made: list[str] = []
        self.number = 0
        super().__init__(world, random)

    def act(self) -> Range:
        if self.made and self.random.random() < 0.3:
            self._delete(self.made.pop(self.random.randrange(len(self.made))))
        else:
            self._copy()
        return 5, 300

    def _copy(self) -> None:
        pod = self.choose_pod()
        if pod is None:
            return
        self.number += 1
        name = f"stray-{self.number}"
        try:
            self.world.api.create(("pods", NAMESPACE, name), self._describe(pod, name))
        except KubeError:  # a quota counts it, too
            return
        self.made.append(name)

    def _describe(self, pod: Object, name: str) -> Object:
        labels = dict(pod["metadata"]["labels"])
        for label, values in CHANGES.items():
            if self.random.random() < 0.3:
                labels[label] = self.random.choice(values)
        metadata = {"name": name, "labels": labels}
        if self.random.random() < 0.5:
            metadata["ownerReferences"] = copy.deepcopy(pod["metadata"]["ownerReferences"])
        # Without its GPUs: a copy that takes them would be a node that is full.
        return {"metadata": metadata, "spec": {"containers": [{"name": names.CONTAINER, "command": INERT}]}}

    def _delete(self, name: str) -> None:
        pod = self.world.find_pod(name)
        if pod is not None:
            self.world.api.delete(("pods", NAMESPACE, name_of(pod)), {})

    def leave(self) -> None:
        """The operator deletes none of them."""
        for name in self.made:
            self._delete(name)
        self.made = []
