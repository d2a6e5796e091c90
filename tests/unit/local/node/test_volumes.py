"""Volumes as folders, those of claims among them: their content, their permissions, and what cannot be made."""

from __future__ import annotations

import base64
import stat
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest
import yaml

from railhead.local.node.container_env import MissingReference
from railhead.local.node.pod_runner import PodRunner
from railhead.local.node.pod_status import PodPlace
from railhead.local.node.volumes import (
    TOKEN_MOUNT,
    TOKEN_SECONDS,
    VolumeMaker,
    build_storage_class,
    build_volume,
    give_identity,
    mount_map,
)
from tests.model.api_server import Object
from tests.model.client import ModelClient, make_client
from tests.unit.local.node.pods import make_pod


def encode(text: bytes) -> str:
    return base64.b64encode(text).decode()


def make_object(kind: str, name: str, **body: Any) -> Object:
    return {"kind": kind, "metadata": {"namespace": "team", "name": name}, **body}


def make_claim(name: str, volume: str | None) -> Object:
    return make_object("PersistentVolumeClaim", name, spec={"volumeName": volume} if volume else {})


def make_volume(name: str, **spec: Any) -> Object:
    return {"kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}


@pytest.fixture
def client() -> ModelClient:
    binary = {"raw": encode(b"\xff\0")}
    return make_client(
        make_object("ConfigMap", "settings", data={"a.yaml": "x: 1", "b": "é"}, binaryData=binary),
        make_object("Secret", "keys", data={"token": encode(b"hidden")}),
    )


async def make(client: ModelClient, folder: Path, *volumes: dict[str, Any]) -> list[Path]:
    pod = make_pod(volumes=[{"name": f"n{index}", **volume} for index, volume in enumerate(volumes)])
    pod = client.api.put(pod)
    made = await VolumeMaker(client, pod, folder, address="127.1.1.1").make()
    return [made[f"n{index}"] for index in range(len(volumes))]


def read(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def test_an_empty_dir_is_empty_and_survives_a_retry(client: ModelClient, tmp_path: Path) -> None:
    [folder] = await make(client, tmp_path, {"emptyDir": {}})
    assert list(folder.iterdir()) == []
    assert folder.is_relative_to(tmp_path)
    (folder / "kept").write_text("")
    assert await make(client, tmp_path, {"emptyDir": {}}) == [folder]
    assert (folder / "kept").exists()


async def test_config_maps_and_secrets_become_files(client: ModelClient, tmp_path: Path) -> None:
    volumes: list[dict[str, Any]] = [{"configMap": {"name": "settings"}}, {"secret": {"secretName": "keys"}}]
    settings, keys = await make(client, tmp_path, *volumes)
    assert read(settings) == {"a.yaml": b"x: 1", "b": "é".encode(), "raw": b"\xff\0"}
    assert read(keys) == {"token": b"hidden"}
    assert mode(keys / "token") == 0o600, "no other user of this machine can read it"
    assert mode(settings / "b") & 0o444


async def test_items_select_keys_and_paths(client: ModelClient, tmp_path: Path) -> None:
    items = [{"key": "b", "path": "deep/er/name"}]
    [folder] = await make(client, tmp_path, {"configMap": {"name": "settings", "items": items}})
    assert read(folder) == {"deep/er/name": "é".encode()}


async def test_a_projected_volume_combines_several_sources(client: ModelClient, tmp_path: Path) -> None:
    sources = [
        {"serviceAccountToken": {"path": "token", "audience": "reports", "expirationSeconds": 600}},
        {"configMap": {"name": "settings", "items": [{"key": "b", "path": "b"}]}},
        {"secret": {"name": "keys", "items": [{"key": "token", "path": "key"}]}},
        {"downwardAPI": {"items": [{"path": "ip", "fieldRef": {"fieldPath": "status.podIP"}}]}},
    ]
    [folder] = await make(client, tmp_path, {"projected": {"sources": sources}})
    [token] = client.api.tokens
    assert read(folder) == {"token": token.encode(), "b": "é".encode(), "key": b"hidden", "ip": b"127.1.1.1"}
    assert mode(folder / "token") == mode(folder / "key") == 0o600
    [request] = [r for r in client.asked if r.verb == "create/token"]
    assert request.path.endswith("/namespaces/team/serviceaccounts/default/token")
    assert request.body["spec"] == {
        "expirationSeconds": TOKEN_SECONDS,  # nothing renews it here
        "audiences": ["reports"],
        "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "pod", "uid": ANY},
    }


async def test_uses_host_paths_and_claims_directly(client: ModelClient, tmp_path: Path) -> None:
    for obj in (
        make_claim("a", "pv-a"),
        make_claim("b", "pv-b"),
        make_volume("pv-a", hostPath={"path": str(tmp_path / "a")}),
        make_volume("pv-b", local={"path": str(tmp_path / "b")}),
    ):
        client.api.put(obj)
    volumes = [{"persistentVolumeClaim": {"claimName": name}} for name in "ab"]
    made = await make(client, tmp_path / "pod", {"hostPath": {"path": "/var/data"}}, *volumes)
    assert made == [Path("/var/data"), tmp_path / "a", tmp_path / "b"]
    assert (tmp_path / "a").is_dir(), "created if missing"


@pytest.mark.parametrize(
    ("volume", "message"),
    [
        ({"configMap": {"name": "none"}}, "ConfigMap none does not exist"),
        ({"secret": {"secretName": "none"}}, "Secret none does not exist"),
        ({"secret": {"secretName": "keys", "items": [{"key": "z", "path": "z"}]}}, "Secret keys has no key z"),
        ({"projected": {"sources": [{"configMap": {"name": "none"}}]}}, "ConfigMap none does not exist"),
        ({"persistentVolumeClaim": {"claimName": "none"}}, "PersistentVolumeClaim none does not exist or is not bound"),
        ({"persistentVolumeClaim": {"claimName": "new"}}, "PersistentVolumeClaim new does not exist or is not bound"),
        ({"persistentVolumeClaim": {"claimName": "net"}}, "PersistentVolumeClaim net: its volume is not a folder"),
        ({"nfs": {"server": "s", "path": "/"}}, "volume n0: nfs is not supported on this node"),
        ({"image": {"reference": "code:1"}}, "volume n0: this node pulls no images, so it cannot mount one"),
    ],
)
async def test_names_a_missing_or_unsupported_volume(
    client: ModelClient, tmp_path: Path, volume: dict[str, Any], message: str
) -> None:
    net = make_volume("pv-net", nfs={"server": "s", "path": "/"})
    for obj in (make_claim("new", None), make_claim("net", "pv-net"), net):
        client.api.put(obj)
    with pytest.raises(MissingReference, match=f"^{message}"):
        await make(client, tmp_path, volume)


@pytest.mark.parametrize(
    "volume",
    [
        {"configMap": {"name": "none", "optional": True}},
        {"secret": {"secretName": "keys", "optional": True, "items": [{"key": "z", "path": "z"}]}},
    ],
)
async def test_an_optional_reference_may_be_missing(client: ModelClient, tmp_path: Path, volume: Object) -> None:
    [folder] = await make(client, tmp_path, volume)
    assert list(folder.iterdir()) == []


def test_maps_mounts_to_folders_except_shm(tmp_path: Path) -> None:
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


async def test_removes_the_pods_folder_but_no_host_path(client: ModelClient, tmp_path: Path) -> None:
    outside, own = tmp_path / "outside", tmp_path / "pod"
    outside.mkdir()
    own.mkdir()
    (own / "link").symlink_to(outside)
    (outside / "kept").write_text("")
    await make(client, own, {"emptyDir": {}}, {"hostPath": {"path": str(outside)}})
    place = PodPlace(own, "127.1.1.1", tmp_path / "hosts", ())
    await PodRunner(client, make_pod(), place, on_change=lambda: None).delete()
    assert not own.exists()
    assert (outside / "kept").exists()


def test_a_container_with_its_accounts_token_finds_the_api_server(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("signed")
    mounts = {TOKEN_MOUNT: str(tmp_path)}
    variables = give_identity({}, mounts, folder=tmp_path, server="https://127.0.0.1:1")
    config = yaml.safe_load(Path(variables["KUBECONFIG"]).read_text())
    assert config["users"][0]["user"] == {"token": "signed"}
    assert config["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:1"


def test_a_container_without_a_token_or_with_its_own_kubeconfig_gets_none(tmp_path: Path) -> None:
    """A training pod has no such token; a container that sets KUBECONFIG keeps its own."""
    assert give_identity({}, {}, folder=tmp_path, server="https://127.0.0.1:1") == {}
    own = {"env": [{"name": "KUBECONFIG", "value": "/mine"}]}
    assert give_identity(own, {TOKEN_MOUNT: str(tmp_path)}, folder=tmp_path, server="https://x") == {}


CLAIM: dict[str, Any] = {
    "metadata": {"namespace": "team", "name": "runs", "uid": "u-1"},
    "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "5Gi"}}},
}


def test_a_volume_is_bound_to_one_claim_and_matches_it() -> None:
    volume = build_volume(CLAIM, Path("/volumes/team/runs"))
    spec = volume["spec"]
    assert spec["claimRef"].items() >= {"namespace": "team", "name": "runs", "uid": "u-1"}.items()
    assert (spec["capacity"], spec["accessModes"]) == ({"storage": "5Gi"}, ["ReadWriteMany"])
    assert spec["hostPath"]["path"] == "/volumes/team/runs"
    assert spec["storageClassName"] == build_storage_class()["metadata"]["name"]
    assert spec["persistentVolumeReclaimPolicy"] == "Retain", "checkpoints outlive their claim"


def test_a_recreated_claim_gets_another_volume() -> None:
    again = {**CLAIM, "metadata": {**CLAIM["metadata"], "uid": "u-2"}}
    assert build_volume(CLAIM, Path("/v"))["metadata"]["name"] != build_volume(again, Path("/v"))["metadata"]["name"]


def test_the_class_is_the_default() -> None:
    annotations = build_storage_class()["metadata"]["annotations"]
    assert annotations == {"storageclass.kubernetes.io/is-default-class": "true"}
