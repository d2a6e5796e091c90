"""How a pod's processes end: asked first, then killed, and nobody is forgotten."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from railhead.local.node.container import CONTAINER_MARKER
from railhead.local.node.place import Place
from railhead.local.node.pod_runner import PodRunner
from railhead.local.node.stop import PodStopped
from railhead.local.processes import Identity, end_marked, identify, is_alive
from tests.model.api_server import Object
from tests.model.client import ModelClient, make_client
from tests.unit.local.node.pods import make_pod, statuses, until

# $$$$ is what Kubernetes makes $$ of: the shell's own pid.
STUBBORN = ["sh", "-c", "trap '' TERM; echo $$$$; exec sleep 600"]
POLITE = ["sh", "-c", "trap 'echo bye > /dev/termination-log; exit 7' TERM; echo $$$$; while :; do sleep 0.05; done"]
Start = Callable[[Object], tuple[PodRunner, asyncio.Task[None]]]


@pytest.fixture
def client() -> ModelClient:
    return make_client()


@pytest.fixture
async def start(client: ModelClient, tmp_path: Path) -> AsyncIterator[Start]:
    """Starts pods; whatever they have left is killed."""
    started: list[PodRunner] = []

    def begin(pod: Object) -> tuple[PodRunner, asyncio.Task[None]]:
        runner = PodRunner(
            client, client.api.put(pod), Place(tmp_path / "pod", "127.9.9.9", "127.0.0.1", tmp_path / "hosts", ())
        )
        started.append(runner)
        return runner, asyncio.create_task(runner.run())

    yield begin
    for runner in started:
        end_marked(CONTAINER_MARKER, "unknown", folder=runner.place.folder)


async def first_process(runner: PodRunner, container: str = "main") -> Identity:
    """It says its pid first."""
    log = runner.log_file(container)
    await until(lambda: log.exists() and log.read_text().endswith("\n"))
    found = identify(int(log.read_text()))
    assert found is not None
    return found


async def test_a_pod_that_is_stopped_is_asked_first(start: Start, client: ModelClient) -> None:
    runner, task = start(make_pod("pod", {"name": "main", "command": POLITE}))
    process = await first_process(runner)
    runner.stop(30)
    await asyncio.wait_for(task, 20)
    assert not is_alive(process)
    ended = statuses(client, "pod")[-1]["containerStatuses"][0]["state"]["terminated"]
    assert (ended["exitCode"], ended["message"]) == (7, "bye\n")


async def test_who_does_not_listen_is_killed_after_the_grace(start: Start, client: ModelClient) -> None:
    runner, task = start(make_pod("pod", {"name": "main", "command": STUBBORN}))
    process = await first_process(runner)
    loop = asyncio.get_running_loop()
    began = loop.time()
    runner.stop(0.5)
    await asyncio.wait_for(task, 20)
    assert loop.time() - began >= 0.5
    assert not is_alive(process)
    assert statuses(client, "pod")[-1]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 137


async def test_the_grace_does_not_begin_again_when_it_is_said_again(start: Start) -> None:
    """Each change of a pod that is being deleted says it again, its own status among them."""
    runner, task = start(make_pod("pod", {"name": "main", "command": STUBBORN}))
    await first_process(runner)

    async def repeat() -> None:
        while not task.done():
            runner.stop(0.4)
            await asyncio.sleep(0.01)

    await asyncio.wait_for(repeat(), 20)


async def test_a_shorter_grace_takes_the_place_of_a_longer_one(start: Start) -> None:
    runner, task = start(make_pod("pod", {"name": "main", "command": STUBBORN}))
    await first_process(runner)
    runner.stop(600)
    runner.stop(0)
    await asyncio.wait_for(task, 20)


async def test_no_container_is_forgotten_because_another_one_never_began(start: Start, client: ModelClient) -> None:
    missing = [{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "none", "key": "x"}}}]
    containers: list[Object] = [
        {"name": "main", "command": STUBBORN},
        {"name": "waits", "command": ["true"], "env": missing},
    ]
    runner, task = start(make_pod("pod", *containers))
    process = await first_process(runner)

    def waits() -> bool:
        said = statuses(client, "pod")[-1]["containerStatuses"][1]["state"]
        return bool(said.get("waiting", {}).get("reason") == "CreateContainerConfigError")

    await until(waits)
    runner.stop(0.1)
    with pytest.raises(PodStopped):
        await asyncio.wait_for(task, 20)
    assert not is_alive(process)


async def test_what_a_container_has_started_ends_with_it(start: Start) -> None:
    command = ["sh", "-c", "setsid sleep 600 >/dev/null 2>&1 & echo $!; wait"]
    runner, task = start(make_pod("pod", {"name": "main", "command": command}))
    daemon = await first_process(runner)
    runner.stop(30)
    await asyncio.wait_for(task, 20)
    assert not is_alive(daemon)


async def test_init_containers_come_one_after_the_other_and_a_failed_one_is_the_end(
    start: Start, client: ModelClient
) -> None:
    inits = [{"name": "one", "command": ["true"]}, {"name": "two", "command": ["sh", "-c", "exit 4"]}]
    _, task = start(make_pod("pod", initContainers=inits))
    await asyncio.wait_for(task, 20)
    last = statuses(client, "pod")[-1]
    assert last["phase"] == "Failed"
    assert [c["state"]["terminated"]["exitCode"] for c in last["initContainerStatuses"]] == [0, 4]
    assert "waiting" in last["containerStatuses"][0]["state"]


async def test_a_file_of_a_config_map_is_mounted_where_the_container_looks_for_it(
    start: Start, client: ModelClient
) -> None:
    metadata = {"namespace": "team", "name": "settings"}
    client.api.put({"kind": "ConfigMap", "metadata": metadata, "data": {"a.conf": "x = 1"}})
    mounts = [{"name": "v", "mountPath": "/etc/a.conf", "subPath": "a.conf"}]
    container = {"name": "main", "command": ["cat", "/etc/a.conf"], "volumeMounts": mounts}
    pod = make_pod("pod", container, volumes=[{"name": "v", "configMap": {"name": "settings"}}])
    runner, task = start(pod)
    await asyncio.wait_for(task, 20)
    assert runner.log_file("main").read_text() == "x = 1"


async def test_a_pod_imports_the_callback_that_its_environment_names(start: Start) -> None:
    script = """
import importlib.util, os
module, _, name = os.environ["RAY_TRAIN_CALLBACKS"].rpartition(".")
spec = importlib.util.find_spec(module)
print(f"class {name}(" in open(spec.origin).read())
"""
    runner, task = start(make_pod("pod", {"name": "main", "command": [sys.executable, "-c", script]}))
    await task
    assert runner.log_file("main").read_text() == "True\n"
