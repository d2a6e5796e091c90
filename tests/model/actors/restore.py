"""A backup tool that makes a job again: with another uid, and then with the status that it had when it was backed up.

Velero, pkg/restore/restore.go: restoreItem creates the object, with the label velero.io/restore-name, and then replaces
its status; other tools have no such label. Whoever restores has deleted the job, its namespace or the whole cluster.
"""

from __future__ import annotations

import copy
from random import Random

from railhead.json_object import Object as Body
from tests.model.actors.actor import Actor, Range
from tests.model.api_server import Object, Place
from tests.model.world import NAMESPACE, World, name_of

LABELS: tuple[Body, ...] = ({}, {"velero.io/restore-name": "nightly"})


class Restore(Actor):
    """Backups, after each of which the job is deleted and made again at any moment; the status follows later."""

    def __init__(self, world: World, random: Random) -> None:
        self.backup: Object | None = None
        self.uid = ""  # of the object that the backup was made from, and later of the one that has no status yet
        self.is_deleted = False
        self.is_made = False
        self.label: Body = {}
        super().__init__(world, random)

    def act(self) -> Range:
        if self.backup is None:
            self._back_up()
            return self.random.choice(((0, 5), (5, 120), (120, 600)))
        if self._find() is None and not self.is_deleted:
            self.backup = None  # somebody else has deleted it, and makes another one of that name
            return 5, 60
        if not self.is_deleted:
            self._delete()
            return self.random.choice(((0, 2), (5, 60)))
        if not self.is_made:
            self._make()
            return self.random.choice(((0, 2), (2, 10), (10, 300)))
        self._restore_status()
        return 60, 900

    def leave(self) -> None:
        """A restore that has begun comes to its end."""
        if self.backup is None or not self.is_deleted:
            return
        if not self.is_made:
            if self._find() is not None:
                self.world.hold(name=name_of(self.backup))
            self._make()
        if self.is_made and self._find() is not None:
            self.world.change(name_of(self.backup), suspend=False)  # the backup's spec may be older than its resume
            self._restore_status()

    def _place(self) -> Place:
        assert self.backup is not None
        return "trainjobs", NAMESPACE, name_of(self.backup)

    def _find(self) -> Object | None:
        """The object that the restore is about, if it still exists."""
        job = self.world.api.objects.get(self._place())
        if job is None or job["metadata"]["uid"] != self.uid:
            return None
        return job

    def _back_up(self) -> None:
        """Copies a job that has begun: one without a status is like any other that is made."""
        begun = [each for each in self.jobs() if each["status"].get("run") and not is_ending(each)]
        if not begun:
            return
        self.backup = copy.deepcopy(self.random.choice(begun))
        self.uid = self.backup["metadata"]["uid"]
        self.label = self.random.choice(LABELS)
        self.is_deleted = self.is_made = False

    def _delete(self) -> None:
        self._disturb_pods()
        self.world.api.delete(self._place(), {"propagationPolicy": "Background"})
        self.is_deleted = True

    def _make(self) -> None:
        """Waits for a finalizer that keeps the former object; if there is another one already, there is no restore."""
        assert self.backup is not None
        if self._find() is not None:
            return
        if self._place() in self.world.api.objects or not self.backup["status"].get("run"):
            self.backup = None
            return
        metadata = {"name": name_of(self.backup), "labels": dict(self.label)}
        body = {**{key: self.backup[key] for key in ("apiVersion", "kind", "spec")}, "metadata": metadata}
        self.uid = self.world.api.create(self._place(), body)["metadata"]["uid"]
        self.is_made = True

    def _restore_status(self) -> None:
        """What the job has begun meanwhile, without its status, is of no use."""
        assert self.backup is not None
        if self._find() is not None:
            self._disturb_pods()
            operation = {"op": "add", "path": "/status", "value": self.backup["status"]}
            content_type = "application/json-patch+json"
            self.world.api.patch(self._place(), [operation], subresource="status", content_type=content_type)
        self.backup = None

    def _disturb_pods(self) -> None:
        for pod in self.world.pods():
            job = self.world.job_of(pod)
            if job is not None and job["metadata"]["uid"] == self.uid:
                self.disturb(pod)


def is_ending(job: Object) -> bool:
    return "deletionTimestamp" in job["metadata"]
