"""The way to a run's files."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from railhead.client.cluster.connection import Target
from railhead.client.cluster.job_snapshot import PodState, read_pod
from railhead.client.exit_codes import ClientError
from railhead.client.run.open_run import choose_folder, choose_own_folder, choose_pod, is_here, open_run
from railhead.client.run.process_files import ProcessFiles
from railhead.client.run.store_files import StoreFiles
from railhead.json_object import Object
from tests.unit.client.jobs import make_job, make_pod

RUNNING: dict[str, Any] = {"phase": "Running", "containerStatuses": [{"name": "ray", "state": {"running": {}}}]}


def make_stored(storage: str, reported: str = "", name: str | None = None) -> Object:
    run = {"storagePath": storage, **({"name": name} if name else {})}
    status: dict[str, Any] = {"runURI": reported} if reported else {}
    return make_job(spec={"trainer": {"trainFunc": "train:main"}, "run": run}, **status)


@pytest.mark.parametrize(
    ("storage", "reported", "folder"),
    [
        ("/runs", "", "/runs/digits-uid-digi"),
        ("/runs", "/runs/fit-2", "/runs/fit-2"),
        ("/runs", "/elsewhere/fit-2", "/elsewhere/fit-2"),
        ("s3://b/p/", "", "s3://b/p/digits-uid-digi"),
        ("s3://b/p?scheme=http", "s3://b/p/x/y?scheme=http", "s3://b/p/x/y?scheme=http"),
        ("s3://b/p?scheme=http", "s3://b/p/x?endpoint_override=evil", "s3://b/p/x?scheme=http"),
    ],
)
def test_the_folder_is_below_the_specs_storage_path(storage: str, reported: str, folder: str) -> None:
    assert choose_folder(make_stored(storage, reported)) == folder


@pytest.mark.parametrize("reported", ["s3://other/p/x", "s3://b/px", "gs://b/p/x", "s3://b/p/../x", "s3://b/p"])
def test_credentials_are_sent_nowhere_else(reported: str) -> None:
    with pytest.raises(ClientError, match=r"not below spec\.run\.storagePath; pass it with --folder"):
        choose_folder(make_stored("s3://b/p", reported))


def test_a_folder_of_this_machine_has_the_runs_name(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    assert is_here(make_stored(str(tmp_path), name="mine"), str(tmp_path / "mine"))
    assert not is_here(make_stored(str(tmp_path), name="mine"), str(tmp_path))
    assert not is_here(make_stored(str(tmp_path), name="gone"), str(tmp_path / "gone"))


def test_the_newest_head_is_read_rather_than_a_worker() -> None:
    def pods(*names: tuple[str, int, int]) -> Any:
        return [read_pod(make_pod(name, slot=slot, attempt=attempt, **RUNNING)) for name, slot, attempt in names]

    assert choose_pod(pods(("h1", -1, 1), ("w2", 0, 2), ("h2", -1, 2), ("w2b", 1, 2))) == "h2"
    assert choose_pod(pods(("h1", -1, 1), ("w2", 0, 2))) == "w2"
    assert choose_pod([read_pod(make_pod("h1"))]) is None


class FixedCluster:
    namespace = "team-a"
    target = Target("file")

    async def list_pods(self, uid: str) -> list[PodState]:
        return [read_pod(make_pod("head", **RUNNING))]


async def no_pods(self: FixedCluster, uid: str) -> list[PodState]:
    return []


async def open_as(job: Object, folder: str | None = None) -> Any:
    """Returns what open_run yields."""
    cluster: Any = FixedCluster()
    async with open_run(cluster, job, lambda _: None, copy=folder) as files:
        return files


async def test_no_reader_is_made_for_a_job_that_has_never_had_a_pod(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "kubectl").touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(FixedCluster, "list_pods", no_pods)
    with pytest.raises(ClientError, match="digits has not begun an attempt; `railhead why digits` says why"):
        await open_as(make_stored("/nowhere"))


async def test_each_place_has_its_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kubectl").touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    here = tmp_path / "mine"
    here.mkdir()
    local = ProcessFiles(str(here), str(here), (sys.executable,))
    assert await open_as(make_stored(str(tmp_path), name="mine")) == local
    assert await open_as(make_stored("/nowhere"), str(here)) == local
    assert isinstance(await open_as(make_stored("/nowhere"), here.as_uri()), StoreFiles)
    called = "exec -n team-a --kubeconfig file -i head -c ray -- python3"
    in_pod = await open_as(make_stored("/nowhere"))
    assert in_pod.root == "/nowhere/digits-uid-digi"
    assert in_pod.command[1:] == tuple(called.split())


async def test_a_store_is_opened_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which asks over the network where a bucket is: the page of all viewers would stand still."""
    threads: list[int] = []

    def open_store(uri: str) -> str:
        threads.append(threading.get_ident())
        return uri

    monkeypatch.setattr(StoreFiles, "open", open_store)
    await open_as(make_stored("s3://bucket/runs"))
    await open_as(make_stored("/nowhere"), "s3://bucket/runs/digits")
    assert len(threads) == 2
    assert threading.get_ident() not in threads


NAME = "digits-uid-digi"


@pytest.mark.parametrize(
    ("storage", "reported", "own"),
    [
        ("/runs", "", f"/runs/{NAME}"),
        ("/runs", f"/here/{NAME}", f"/here/{NAME}"),
        ("/runs", f"/here/{NAME}-fit-2", f"/here/{NAME}"),
        ("/runs", f"/here/{NAME}/my-cnn", f"/here/{NAME}"),
        ("/runs", "/here/my-cnn", "/here/my-cnn"),
        ("s3://b/p?scheme=http", f"s3://b/p/{NAME}/my-cnn?scheme=http", f"s3://b/p/{NAME}?scheme=http"),
        ("s3://b/p", f"s3://b/p/{NAME}-fit-12", f"s3://b/p/{NAME}"),
    ],
)
def test_the_jobs_own_folder_has_the_runs_that_its_code_names(storage: str, reported: str, own: str) -> None:
    assert choose_own_folder(make_stored(storage, reported)) == own


def test_the_own_folder_of_a_run_that_is_named_like_its_storage() -> None:
    assert choose_own_folder(make_stored("/runs", "/runs/runs", name="runs")) == "/runs/runs"
    assert choose_own_folder(make_stored("/runs", "/runs/runs/my-cnn", name="runs")) == "/runs/runs"


def test_a_restored_job_keeps_the_name_of_its_run(tmp_path: Path) -> None:
    run = {"name": "digits-1a2b3c4d", "uid": "uid-digits", "formerUids": ["1a2b3c4d"]}
    job = make_job(spec={"trainer": {"trainFunc": "train:main"}, "run": {"storagePath": str(tmp_path)}}, run=run)
    assert choose_folder(job) == choose_own_folder(job) == f"{tmp_path}/digits-1a2b3c4d"


@pytest.mark.parametrize("folder", [f"{NAME}", f"{NAME}-fit-2", f"{NAME}/my-cnn"])
def test_each_run_of_a_script_is_found_on_this_machine(tmp_path: Path, folder: str) -> None:
    (tmp_path / folder).mkdir(parents=True)
    job = make_stored(str(tmp_path), str(tmp_path / folder))
    assert is_here(job, str(tmp_path / folder))
    assert is_here(job, choose_own_folder(job)) == (tmp_path / NAME).is_dir()
