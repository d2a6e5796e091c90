"""How a pod's processes end: SIGTERM first, then SIGKILL, and none is left behind."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from railhead.local.node.container import CONTAINER_MARKER, PodStopped
from railhead.local.node.pod_runner import PodRunner
from railhead.local.node.pod_status import PodPlace
from railhead.local.processes import Identity, end_marked, identify, is_alive
from tests.model.api_server import Object
from tests.model.client import ModelClient, make_client
from tests.unit.local.node.pods import make_pod, statuses, until

# Kubernetes turns $$$$ into $$: the shell's own pid.
STUBBORN = ["sh", "-c", "trap '' TERM; echo $$$$; exec sleep 600"]
POLITE = ["sh", "-c", "trap 'echo bye > /dev/termination-log; exit 7' TERM; echo $$$$; while :; do sleep 0.05; done"]
Start = Callable[[Object], tuple[PodRunner, asyncio.Task[None]]]


@pytest.fixture
def client() -> ModelClient:
    return make_client()


@pytest.fixture
async def start(client: ModelClient, tmp_path: Path) -> AsyncIterator[Start]:
    """Start pods; kill whatever they leave behind."""
    started: list[PodRunner] = []

    def begin(pod: Object) -> tuple[PodRunner, asyncio.Task[None]]:
        place = PodPlace(tmp_path / "pod", "127.9.9.9", tmp_path / "hosts", ())
        runner = PodRunner(client, client.api.put(pod), place, on_change=lambda: None)
        started.append(runner)
        return runner, asyncio.create_task(runner.run())

    yield begin
    for runner in started:
        end_marked(CONTAINER_MARKER, "unknown", folder=runner.place.folder)


async def first_process(runner: PodRunner, container: str = "main") -> Identity:
    """Its first output is its pid."""
    log = runner.log_file(container)
    await until(lambda: log.exists() and log.read_text().endswith("\n"))
    found = identify(int(log.read_text()))
    assert found is not None
    return found


async def test_a_stopped_pod_receives_sigterm_first(start: Start, client: ModelClient) -> None:
    runner, task = start(make_pod("pod", {"name": "main", "command": POLITE}))
    process = await first_process(runner)
    runner.stop(30)
    await asyncio.wait_for(task, 20)
    assert not is_alive(process)
    ended = statuses(client, "pod")[-1]["containerStatuses"][0]["state"]["terminated"]
    assert (ended["exitCode"], ended["message"]) == (7, "bye\n")


async def test_kills_a_process_that_ignores_sigterm_after_the_grace_period(start: Start, client: ModelClient) -> None:
    runner, task = start(make_pod("pod", {"name": "main", "command": STUBBORN}))
    process = await first_process(runner)
    loop = asyncio.get_running_loop()
    began = loop.time()
    runner.stop(0.5)
    await asyncio.wait_for(task, 20)
    assert loop.time() - began >= 0.5
    assert not is_alive(process)
    assert statuses(client, "pod")[-1]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 137


async def test_repeated_stops_do_not_restart_the_grace_period(start: Start) -> None:
    """Each change of a terminating pod stops it again, its own status included."""
    runner, task = start(make_pod("pod", {"name": "main", "command": STUBBORN}))
    await first_process(runner)

    async def repeat() -> None:
        while not task.done():
            runner.stop(0.4)
            await asyncio.sleep(0.01)

    await asyncio.wait_for(repeat(), 20)


async def test_a_shorter_grace_period_replaces_a_longer_one(start: Start) -> None:
    runner, task = start(make_pod("pod", {"name": "main", "command": STUBBORN}))
    await first_process(runner)
    runner.stop(600)
    runner.stop(0)
    await asyncio.wait_for(task, 20)


async def test_stops_every_container_even_if_another_never_started(start: Start, client: ModelClient) -> None:
    missing = [{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "none", "key": "x"}}}]
    containers: list[Object] = [
        {"name": "main", "command": STUBBORN},
        {"name": "waits", "command": ["true"], "env": missing},
    ]
    runner, task = start(make_pod("pod", *containers))
    process = await first_process(runner)

    def waits() -> bool:
        state = statuses(client, "pod")[-1]["containerStatuses"][1]["state"]
        return bool(state.get("waiting", {}).get("reason") == "CreateContainerConfigError")

    await until(waits)
    runner.stop(0.1)
    with pytest.raises(PodStopped):
        await asyncio.wait_for(task, 20)
    assert not is_alive(process)


async def test_stops_daemons_of_a_container(start: Start) -> None:
    command = ["sh", "-c", "setsid sleep 600 >/dev/null 2>&1 & echo $!; wait"]
    runner, task = start(make_pod("pod", {"name": "main", "command": command}))
    daemon = await first_process(runner)
    runner.stop(30)
    await asyncio.wait_for(task, 20)
    assert not is_alive(daemon)


async def test_init_containers_run_in_order_and_a_failed_one_fails_the_pod(start: Start, client: ModelClient) -> None:
    inits = [{"name": "one", "command": ["true"]}, {"name": "two", "command": ["sh", "-c", "exit 4"]}]
    _, task = start(make_pod("pod", initContainers=inits))
    await asyncio.wait_for(task, 20)
    last = statuses(client, "pod")[-1]
    assert last["phase"] == "Failed"
    assert [c["state"]["terminated"]["exitCode"] for c in last["initContainerStatuses"]] == [0, 4]
    assert "waiting" in last["containerStatuses"][0]["state"]


async def test_mounts_a_file_of_a_config_map_by_sub_path(start: Start, client: ModelClient) -> None:
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
