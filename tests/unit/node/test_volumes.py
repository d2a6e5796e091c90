"""Volumes as folders: what is in them, who may read it, and in which words one is refused."""

from __future__ import annotations

import base64
import stat
from pathlib import Path
from typing import Any

import pytest

from railhead.local.node.environment import MissingReference
from railhead.local.node.volumes import TOKEN_SECONDS, VolumeMaker, mount_map, remove_folder
from tests.unit.node.store import TOKEN, Store, make_pod


def encode(text: bytes) -> str:
    return base64.b64encode(text).decode()


def claim(name: str, volume: str | None) -> dict[tuple[str, str], Any]:
    return {("persistentvolumeclaims", name): {"spec": {"volumeName": volume} if volume else {}}}


OBJECTS: dict[tuple[str, str], Any] = {
    ("configmaps", "settings"): {"data": {"a.yaml": "x: 1", "b": "é"}, "binaryData": {"raw": encode(b"\xff\0")}},
    ("secrets", "keys"): {"data": {"token": encode(b"hidden")}},
}


@pytest.fixture
def store() -> Store:
    return Store(dict(OBJECTS))


async def make(store: Store, folder: Path, *volumes: dict[str, Any]) -> list[Path]:
    pod = make_pod(volumes=[{"name": f"n{index}", **volume} for index, volume in enumerate(volumes)])
    made = await VolumeMaker(store, pod, folder, address="127.1.1.1", node_address="127.0.0.1").make()
    return [made[f"n{index}"] for index in range(len(volumes))]


def read(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def test_an_empty_dir_is_empty_and_stays_when_the_volumes_are_tried_again(store: Store, tmp_path: Path) -> None:
    [folder] = await make(store, tmp_path, {"emptyDir": {}})
    assert list(folder.iterdir()) == []
    assert folder.is_relative_to(tmp_path)
    (folder / "kept").write_text("")
    assert await make(store, tmp_path, {"emptyDir": {}}) == [folder]
    assert (folder / "kept").exists()


async def test_config_map_and_secret_are_files(store: Store, tmp_path: Path) -> None:
    volumes: list[dict[str, Any]] = [{"configMap": {"name": "settings"}}, {"secret": {"secretName": "keys"}}]
    settings, keys = await make(store, tmp_path, *volumes)
    assert read(settings) == {"a.yaml": b"x: 1", "b": "é".encode(), "raw": b"\xff\0"}
    assert read(keys) == {"token": b"hidden"}
    assert mode(keys / "token") == 0o600, "nobody else on this machine reads it"
    assert mode(settings / "b") & 0o444


async def test_items_choose_keys_and_paths(store: Store, tmp_path: Path) -> None:
    items = [{"key": "b", "path": "deep/er/name"}]
    [folder] = await make(store, tmp_path, {"configMap": {"name": "settings", "items": items}})
    assert read(folder) == {"deep/er/name": "é".encode()}


async def test_a_projected_volume_is_one_folder_of_several_sources(store: Store, tmp_path: Path) -> None:
    sources = [
        {"serviceAccountToken": {"path": "token", "audience": "reports", "expirationSeconds": 600}},
        {"configMap": {"name": "settings", "items": [{"key": "b", "path": "b"}]}},
        {"secret": {"name": "keys", "items": [{"key": "token", "path": "key"}]}},
        {"downwardAPI": {"items": [{"path": "ip", "fieldRef": {"fieldPath": "status.podIP"}}]}},
    ]
    [folder] = await make(store, tmp_path, {"projected": {"sources": sources}})
    assert read(folder) == {"token": TOKEN.encode(), "b": "é".encode(), "key": b"hidden", "ip": b"127.1.1.1"}
    assert mode(folder / "token") == mode(folder / "key") == 0o600
    [request] = store.asked
    assert request.path.endswith("/namespaces/team/serviceaccounts/default/token")
    assert request.body["spec"] == {
        "expirationSeconds": TOKEN_SECONDS,  # nothing renews it here
        "audiences": ["reports"],
        "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "pod", "uid": "uid-pod"},
    }


async def test_folders_of_the_machine_and_of_claims_are_used_as_they_are(store: Store, tmp_path: Path) -> None:
    store.objects |= {**claim("a", "pv-a"), **claim("b", "pv-b")}
    store.objects["persistentvolumes", "pv-a"] = {"spec": {"hostPath": {"path": str(tmp_path / "a")}}}
    store.objects["persistentvolumes", "pv-b"] = {"spec": {"local": {"path": str(tmp_path / "b")}}}
    volumes = [{"persistentVolumeClaim": {"claimName": name}} for name in "ab"]
    made = await make(store, tmp_path / "pod", {"hostPath": {"path": "/var/data"}}, *volumes)
    assert made == [Path("/var/data"), tmp_path / "a", tmp_path / "b"]
    assert (tmp_path / "a").is_dir(), "made when it is not there yet"


@pytest.mark.parametrize(
    ("volume", "words"),
    [
        ({"configMap": {"name": "none"}}, "ConfigMap none does not exist"),
        ({"secret": {"secretName": "none"}}, "Secret none does not exist"),
        ({"secret": {"secretName": "keys", "items": [{"key": "z", "path": "z"}]}}, "Secret keys has no key z"),
        ({"projected": {"sources": [{"configMap": {"name": "none"}}]}}, "ConfigMap none does not exist"),
        ({"persistentVolumeClaim": {"claimName": "none"}}, "PersistentVolumeClaim none does not exist or is not bound"),
        ({"persistentVolumeClaim": {"claimName": "new"}}, "PersistentVolumeClaim new does not exist or is not bound"),
        ({"persistentVolumeClaim": {"claimName": "net"}}, "PersistentVolumeClaim net: its volume is no folder"),
        ({"nfs": {"server": "s", "path": "/"}}, "volume n0: nfs is not known to this node"),
        ({"image": {"reference": "code:1"}}, "volume n0: this node pulls no images, so it cannot mount one"),
    ],
)
async def test_what_cannot_be_had_is_named(store: Store, tmp_path: Path, volume: dict[str, Any], words: str) -> None:
    store.objects |= {**claim("new", None), **claim("net", "pv-net")}
    store.objects["persistentvolumes", "pv-net"] = {"spec": {"nfs": {"server": "s", "path": "/"}}}
    with pytest.raises(MissingReference, match=f"^{words}"):
        await make(store, tmp_path, volume)


@pytest.mark.parametrize(
    "volume",
    [
        {"configMap": {"name": "none", "optional": True}},
        {"secret": {"secretName": "keys", "optional": True, "items": [{"key": "z", "path": "z"}]}},
    ],
)
async def test_what_is_optional_may_be_missing(store: Store, tmp_path: Path, volume: dict[str, Any]) -> None:
    [folder] = await make(store, tmp_path, volume)
    assert list(folder.iterdir()) == []


def test_mounts_lead_to_folders_and_shm_is_the_machines_own(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("x: 1")
    mounts = [
        {"name": "v", "mountPath": "/data"},
        {"name": "v", "mountPath": "/sub", "subPath": "new/folder"},
        {"name": "v", "mountPath": "/etc/config.yaml", "subPath": "config.yaml"},
        {"name": "shm", "mountPath": "/dev/shm/"},
    ]
    assert mount_map({"volumeMounts": mounts}, {"v": tmp_path, "shm": tmp_path / "shm"}) == {
        "/data": str(tmp_path),
        "/sub": str(tmp_path / "new/folder"),
        "/etc/config.yaml": str(tmp_path / "config.yaml"),
    }
    assert (tmp_path / "new/folder").is_dir()
    assert (tmp_path / "config.yaml").read_text() == "x: 1"


async def test_the_pods_folder_is_removed_and_what_it_only_used_is_not(store: Store, tmp_path: Path) -> None:
    outside, own = tmp_path / "outside", tmp_path / "pod"
    outside.mkdir()
    own.mkdir()
    (own / "link").symlink_to(outside)
    (outside / "kept").write_text("")
    await make(store, own, {"emptyDir": {}}, {"hostPath": {"path": str(outside)}})
    remove_folder(own)
    remove_folder(own)
    assert not own.exists()
    assert (outside / "kept").exists()
