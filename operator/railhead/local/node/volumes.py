"""A pod's volumes as folders on this machine, the volumes of claims, and a mounted token as a kubeconfig."""

from __future__ import annotations

import asyncio
import base64
import logging
import os
from collections.abc import Mapping
from pathlib import Path

from railhead.json_object import Object
from railhead.kube.bodies import keep_all
from railhead.kube.client import KubeClient, Scope
from railhead.kube.errors import Conflict, Denied, Gone, KubeError
from railhead.kube.informer import Informer
from railhead.kube.kinds import CONFIG_MAP, PV, PVC, SECRET, SERVICE_ACCOUNT, STORAGE_CLASS
from railhead.local.control_plane.servers import write_kubeconfig
from railhead.local.node.container_env import MissingReference, NotPossible, field_value
from railhead.together import run_together

log = logging.getLogger(__name__)

TOKEN_SECONDS = 365 * 24 * 3600
TOKEN_MOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
LOCAL_CLASS = "local-directory"
FILES = frozenset({"configMap", "secret", "downwardAPI"})  # volumes that are also sources of a projected one
PROVISIONER = "railhead.dev/local-directory"


class VolumeMaker:
    """Creates the folders of one pod's volumes.

    Raises (from `make`):
        MissingReference: something a volume refers to does not exist.
        NotPossible: its kind is not supported here.
    """

    def __init__(self, client: KubeClient, pod: Object, folder: Path, *, address: str) -> None:
        self._client = client
        self._pod = pod
        self._folder = folder
        self._namespace = pod["metadata"]["namespace"]
        self._address = address

    async def make(self) -> dict[str, Path]:
        """Returns the folder of each volume, by the volume's name."""
        made = {}
        for number, volume in enumerate(self._pod["spec"].get("volumes") or []):
            # Short names: Ray creates unix sockets below these, and a socket's path has at most 107 bytes.
            made[volume["name"]] = await self._one(volume, self._folder / f"v{number}")
        return made

    async def data(self, kind: str, name: str) -> dict[str, str] | None:
        """Returns a ConfigMap's or Secret's data as text; None without the object."""
        content = await self._content(kind, name)
        if content is None:
            return None
        return {key: value.decode(errors="replace") for key, value in content.items()}

    async def _one(self, volume: Object, folder: Path) -> Path:
        if "emptyDir" in volume:
            folder.mkdir(exist_ok=True)
        elif "projected" in volume:
            for source in volume["projected"].get("sources") or []:
                await self._write_files(folder, source)
        elif FILES & volume.keys():
            await self._write_files(folder, volume)
        elif "hostPath" in volume:
            return Path(volume["hostPath"]["path"])
        elif "persistentVolumeClaim" in volume:
            return await self._claimed(volume["persistentVolumeClaim"]["claimName"])
        elif "image" in volume:
            raise NotPossible(f"volume {volume['name']}: this node pulls no images, so it cannot mount one")
        else:
            kinds = ", ".join(key for key in volume if key != "name")
            raise NotPossible(f"volume {volume['name']}: {kinds} is not supported on this node")
        return folder

    async def _write_files(self, folder: Path, source: Object) -> None:
        """Writes the files of a volume, or of one source of a projected volume."""
        if "serviceAccountToken" in source:
            token = source["serviceAccountToken"]
            _write(folder / token["path"], (await self._token(token)).encode(), mode=0o600)
        elif "configMap" in source:
            await self._write_keys(folder, "ConfigMap", source["configMap"].get("name", ""), source["configMap"])
        elif "secret" in source:
            secret = source["secret"]
            await self._write_keys(folder, "Secret", secret.get("secretName") or secret.get("name", ""), secret)
        elif "downwardAPI" in source:
            self._write_fields(folder, source["downwardAPI"])

    async def _token(self, wanted: Object) -> str:
        """Returns a token bound to this pod, for its lifetime: nothing renews it here, and it expires with the pod."""
        metadata = self._pod["metadata"]
        bound = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}
        spec: Object = {"expirationSeconds": TOKEN_SECONDS, "boundObjectRef": bound}
        if wanted.get("audience"):
            spec["audiences"] = [wanted["audience"]]
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        account = self._pod["spec"].get("serviceAccountName") or "default"
        answer = await self._client.create(
            SERVICE_ACCOUNT, body, namespace=self._namespace, name=account, subresource="token"
        )
        return str(answer["status"]["token"])

    async def _content(self, kind: str, name: str) -> dict[str, bytes] | None:
        try:
            obj = await self._client.get(CONFIG_MAP if kind == "ConfigMap" else SECRET, name, namespace=self._namespace)
        except Gone:
            return None
        if kind == "Secret":
            return {key: base64.b64decode(value) for key, value in (obj.get("data") or {}).items()}
        binary = {key: base64.b64decode(value) for key, value in (obj.get("binaryData") or {}).items()}
        return {**{key: value.encode() for key, value in (obj.get("data") or {}).items()}, **binary}

    async def _write_keys(self, folder: Path, kind: str, name: str, source: Object) -> None:
        content = await self._content(kind, name)
        if content is None:
            if source.get("optional"):
                folder.mkdir(exist_ok=True)
                return
            raise MissingReference(f"{kind} {name} does not exist")
        items = source.get("items") or [{"key": key, "path": key} for key in content]
        folder.mkdir(exist_ok=True)
        for item in items:
            if item["key"] not in content:
                if source.get("optional"):
                    continue
                raise MissingReference(f"{kind} {name} has no key {item['key']}")
            _write(folder / item["path"], content[item["key"]], mode=0o600 if kind == "Secret" else 0o644)

    def _write_fields(self, folder: Path, source: Object) -> None:
        for item in source.get("items") or []:
            value = field_value(self._pod, item["fieldRef"]["fieldPath"], address=self._address)
            _write(folder / item["path"], value.encode(), mode=0o644)

    async def _claimed(self, name: str) -> Path:
        try:
            claim = await self._client.get(PVC, name, namespace=self._namespace)
            volume = await self._client.get(PV, (claim.get("spec") or {}).get("volumeName") or "-")
        except Gone:
            raise MissingReference(f"PersistentVolumeClaim {name} does not exist or is not bound") from None
        spec = volume.get("spec") or {}
        path = (spec.get("hostPath") or spec.get("local") or {}).get("path")
        if not path:
            raise MissingReference(f"PersistentVolumeClaim {name}: its volume is not a folder on this machine")
        os.makedirs(path, exist_ok=True)
        return Path(path)


def mount_map(container: Object, volumes: Mapping[str, Path]) -> dict[str, str]:
    """Returns the real folder of each mount path. /dev/shm is this machine's own."""
    mounts = {}
    for mount in container.get("volumeMounts") or []:
        if mount["mountPath"].rstrip("/") != "/dev/shm":
            folder = volumes[mount["name"]]
            if mount.get("subPath"):
                folder = folder / mount["subPath"]
                # A subPath that exists may be a single file, of which no folder can be made.
                if not folder.exists():
                    folder.mkdir(parents=True)
            mounts[mount["mountPath"]] = str(folder)
    return mounts


def _write(path: Path, data: bytes, *, mode: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(path.name + ".new")
    with open(os.open(new, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, mode), "wb") as file:
        file.write(data)
    new.replace(path)


def give_identity(container: Object, mounts: Mapping[str, str], *, folder: Path, server: str) -> dict[str, str]:
    """Writes a kubeconfig with the token of the pod's service account; returns the variables for the container.

    On a cluster a client finds the token at a hard-coded path. There are no mounts here, so KUBECONFIG names a file
    with the same credentials. Nothing if the container has no token of its service account, or sets its own KUBECONFIG.
    """
    own = mounts.get(TOKEN_MOUNT)
    has_its_own = any(item["name"] == "KUBECONFIG" for item in container.get("env") or [])
    if own is None or not server or has_its_own:
        return {}
    path = folder / "kubeconfig"
    write_kubeconfig(path, server=server, pki=Path(own), token=(Path(own) / "token").read_text())
    return {"KUBECONFIG": str(path)}


def build_storage_class() -> Object:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {
            "name": LOCAL_CLASS,
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": PROVISIONER,
        "reclaimPolicy": "Retain",
        "volumeBindingMode": "Immediate",
    }


def build_volume(claim: Object, folder: Path) -> Object:
    """Returns the volume for one claim, bound to it by uid."""
    metadata = claim["metadata"]
    spec = claim["spec"]
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
            "storageClassName": LOCAL_CLASS,
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


async def provide_volumes(client: KubeClient, folder: Path) -> None:
    """Gives every claim of the local storage class a folder on this machine; the control plane binds the volume.

    Runs until it is cancelled.
    """
    wanted: asyncio.Queue[Object] = asyncio.Queue()

    def on_change(_: Object | None, new: Object | None) -> None:
        if new is None:
            return
        spec = new["spec"]
        if spec.get("storageClassName") == LOCAL_CLASS and not spec.get("volumeName"):
            wanted.put_nowait(new)

    await _make_class(client)
    claims = Informer(client, Scope(PVC), on_change=on_change, slim=keep_all)
    await run_together(claims.run(), _make_volumes(client, folder, wanted))


async def _make_class(client: KubeClient) -> None:
    while True:
        try:
            await client.create(STORAGE_CLASS, build_storage_class())
            return
        except Conflict:
            return
        except Denied:
            # A new API server may not have loaded our role yet.
            await asyncio.sleep(0.2)


async def _make_volumes(client: KubeClient, root: Path, wanted: asyncio.Queue[Object]) -> None:
    while True:
        claim = await wanted.get()
        metadata = claim["metadata"]
        folder = root / metadata["namespace"] / metadata["name"]
        folder.mkdir(parents=True, exist_ok=True)
        try:
            await client.create(PV, build_volume(claim, folder))
        except Conflict:
            pass
        except KubeError as error:
            log.warning("volume for %s/%s: %s", metadata["namespace"], metadata["name"], error)
