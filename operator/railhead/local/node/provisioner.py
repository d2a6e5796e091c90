"""Gives every PersistentVolumeClaim of the local storage class a folder on this machine."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from railhead.kube.client import KubeClient
from railhead.kube.errors import Conflict, Denied, KubeError
from railhead.kube.informer import Informer
from railhead.kube.kinds import PV, PVC, STORAGE_CLASS
from railhead.kube.types import Object, keep_all

log = logging.getLogger(__name__)

NAME = "local-directory"
PROVISIONER = "railhead.dev/local-directory"


def build_storage_class() -> Object:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": NAME, "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": PROVISIONER,
        "reclaimPolicy": "Retain",
        "volumeBindingMode": "Immediate",
    }


def build_volume(claim: Object, folder: Path) -> Object:
    """The volume for one claim, bound to it by uid."""
    metadata, spec = claim["metadata"], claim["spec"]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {
            "name": f"local-{metadata['uid']}",
            "annotations": {"pv.kubernetes.io/provisioned-by": PROVISIONER},
        },
        "spec": {
            "capacity": {"storage": spec["resources"]["requests"]["storage"]},
            "accessModes": spec["accessModes"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": NAME,
            "hostPath": {"path": str(folder), "type": "DirectoryOrCreate"},
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": metadata["namespace"],
                "name": metadata["name"],
                "uid": metadata["uid"],
            },
        },
    }


class Provisioner:
    """Watches claims and creates volumes; the control plane binds them."""

    def __init__(self, client: KubeClient, folder: Path) -> None:
        self._client = client
        self._folder = folder
        self._wanted: asyncio.Queue[Object] = asyncio.Queue()
        self._informer = Informer(client, PVC, on_change=self._on_change, slim=keep_all)

    async def run(self) -> None:
        """Runs until it is cancelled."""
        await self._make_class()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._informer.run())
            group.create_task(self._work())

    async def _make_class(self) -> None:
        while True:
            try:
                await self._client.create(STORAGE_CLASS, build_storage_class())
            except Conflict:
                return
            except Denied:
                await asyncio.sleep(0.2)  # a new API server may not have loaded our role yet

    def _on_change(self, _: Object | None, new: Object | None) -> None:
        if new is not None and new["spec"].get("storageClassName") == NAME and not new["spec"].get("volumeName"):
            self._wanted.put_nowait(new)

    async def _work(self) -> None:
        while True:
            claim = await self._wanted.get()
            metadata = claim["metadata"]
            folder = self._folder / metadata["namespace"] / metadata["name"]
            folder.mkdir(parents=True, exist_ok=True)
            try:
                await self._client.create(PV, build_volume(claim, folder))
            except Conflict:
                pass
            except KubeError as error:
                log.warning("volume for %s/%s: %s", metadata["namespace"], metadata["name"], error)
