"""A head whose own network is broken: it reaches none of its workers, or only those that it has a connection to.

The operator still hears its reports: they take another way (a proxy, a second interface, or a NetworkPolicy between the
pods only, staging/src/k8s.io/api/networking/v1/types.go). Conntrack keeps connections that a new rule would deny.
"""

from __future__ import annotations

from random import Random

from railhead.api import names
from tests.model.actors.actor import Actor, Range
from tests.model.world import World


class CutOffHead(Actor):
    """One after the other, until somebody repairs its network."""

    is_for_new_only = False

    def __init__(self, world: World, random: Random) -> None:
        self.uid = ""
        super().__init__(world, random)

    def act(self) -> Range:
        if self.uid:
            self.leave()
            return 60, 600
        head = self.choose_pod(names.HEAD)
        if head is None or head["metadata"]["uid"] not in self.world.drivers:
            return 5, 60
        self.uid = head["metadata"]["uid"]
        if self.is_for_new_only:
            self.world.deaf[self.uid] = self.world.now
        else:
            self.world.cut.add(self.uid)
        return 60, 1200

    def leave(self) -> None:
        self.world.cut.discard(self.uid)
        self.world.deaf.pop(self.uid, None)
        self.uid = ""


class DeafHead(CutOffHead):
    """New connections only."""

    is_for_new_only = True
