"""A pod's volumes as folders on this machine."""

from __future__ import annotations

import base64
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from railhead.kube.client import KubeClient
from railhead.kube.errors import Gone
from railhead.kube.kinds import CONFIG_MAP, PV, PVC, SECRET, SERVICE_ACCOUNT
from railhead.kube.types import Object
from railhead.local.node.environment import MissingReference, NotPossible, field_value

TOKEN_SECONDS = 365 * 24 * 3600


class VolumeMaker:
    """Creates the folders of one pod's volumes.

    Raises (from `make`):
        MissingReference: something a volume refers to does not exist.
        NotPossible: its kind is not supported here.
    """

    def __init__(self, client: KubeClient, pod: Object, folder: Path, *, address: str, node_address: str) -> None:
        self._client = client
        self._pod = pod
        self._folder = folder
        self._namespace = pod["metadata"]["namespace"]
        self._addresses = {"address": address, "node_address": node_address}

    async def make(self) -> dict[str, Path]:
        """Volume name -> folder."""
        made = {}
        for number, volume in enumerate(self._pod["spec"].get("volumes") or []):
            # Short names: Ray creates unix sockets below these, and a socket's path has at most 107 bytes.
            made[volume["name"]] = await self._one(volume, self._folder / f"v{number}")
        return made

    async def data(self, kind: str, name: str) -> dict[str, str] | None:
        """A ConfigMap's or Secret's data as text."""
        content = await self._content(kind, name)
        return None if content is None else {key: value.decode(errors="replace") for key, value in content.items()}

    async def _one(self, volume: Object, folder: Path) -> Path:
        if "emptyDir" in volume:
            folder.mkdir(exist_ok=True)
        elif "configMap" in volume:
            source = volume["configMap"]
            await self._write_keys(folder, "ConfigMap", source.get("name", ""), source)
        elif "secret" in volume:
            source = volume["secret"]
            await self._write_keys(folder, "Secret", source.get("secretName", ""), source)
        elif "projected" in volume:
            for source in volume["projected"].get("sources") or []:
                await self._project(folder, source)
        elif "downwardAPI" in volume:
            self._write_fields(folder, volume["downwardAPI"])
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

    async def _project(self, folder: Path, source: Object) -> None:
        if "serviceAccountToken" in source:
            token = source["serviceAccountToken"]
            _write(folder / token["path"], (await self._token(token)).encode(), mode=0o600)
        elif "configMap" in source:
            await self._write_keys(folder, "ConfigMap", source["configMap"].get("name", ""), source["configMap"])
        elif "secret" in source:
            await self._write_keys(folder, "Secret", source["secret"].get("name", ""), source["secret"])
        elif "downwardAPI" in source:
            self._write_fields(folder, source["downwardAPI"])

    async def _token(self, wanted: Object) -> str:
        """A token bound to this pod, for its lifetime: nothing renews it here, and it expires with the pod."""
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
            value = field_value(self._pod, item["fieldRef"]["fieldPath"], **self._addresses)
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
    """Mount path -> real folder. /dev/shm is this machine's own."""
    mounts = {}
    for mount in container.get("volumeMounts") or []:
        if mount["mountPath"].rstrip("/") != "/dev/shm":
            folder = volumes[mount["name"]]
            if mount.get("subPath"):
                folder = folder / mount["subPath"]
                if not folder.exists():  # it may be a single file
                    folder.mkdir(parents=True)
            mounts[mount["mountPath"]] = str(folder)
    return mounts


def remove_folder(folder: Path) -> None:
    """The pod's own folder; volumes elsewhere are not touched."""
    shutil.rmtree(folder, ignore_errors=True)


def _write(path: Path, data: bytes, *, mode: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(path.name + ".new")
    with open(os.open(new, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, mode), "wb") as file:
        file.write(data)
    new.replace(path)
