"""The commands of docs/how-to/ten-tasks.md, in order, against a cluster that trains with Ray, and what the page says
they print."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
import yaml

from tests.e2e.cluster import Cluster, wait_until
from tests.e2e.command_line import CommandLine
from tests.local.test_quick_starts import is_as_described, read_steps

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "ten-tasks.md"
GPU = "nvidia.com/gpu"


class Events:
    """What happens before the commands of these numbers."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def take_gpus(self) -> None:
        """Another pod has all GPUs but one."""
        path = "jsonpath={.status.allocatable.nvidia\\.com/gpu}"
        free = int(self._cluster.kubectl("get", "node", "local", "-o", path))
        container = {
            "name": "main",
            "image": "none",
            "command": ["sleep", "600"],
            "resources": {"limits": {GPU: str(free - 1)}},
            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        }
        security = {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}}
        spec = {"containers": [container], "securityContext": security, "terminationGracePeriodSeconds": 0}
        self._cluster.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "others"}, "spec": spec})
        running = lambda: self._cluster.get("pod", "others")["status"].get("phase") == "Running"  # noqa: E731
        wait_until("the other pod", running)

    def wait_unschedulable(self) -> None:
        def is_waiting() -> bool:
            conditions = self._cluster.status("digits").get("conditions") or []
            return any(each["reason"] == "Unschedulable" and each["status"] == "True" for each in conditions)

        wait_until("a pod without a node", is_waiting, tell=lambda: self._cluster.tell("digits"))

    def wait_failed(self) -> None:
        self._cluster("delete", "pod", "others", "--grace-period=0", "--force")
        self._cluster.wait_phase("digits", "Failed")
        has_none = lambda: all(name.endswith("-head") for name in self._cluster.pod_names("digits"))  # noqa: E731
        wait_until("the end of the worker pods", has_none)

    def wait_succeeded(self) -> None:
        self._cluster.wait_phase("digits-r2", "Succeeded")


@pytest.fixture
def digits_deleted(cluster: Cluster) -> Iterator[None]:
    """Deletes the job of the page also where a command before the page's last one fails."""
    yield
    cluster.delete_job("digits")


@pytest.mark.slow
@pytest.mark.usefixtures("digits_deleted")
def test_each_command_of_the_page_prints_what_the_page_says(cluster: Cluster, tmp_path: Path) -> None:
    if not cluster.is_local:
        pytest.skip("a real node has no fake GPUs")
    page = PAGE.read_text()
    (tmp_path / "digits.yaml").write_text(page.partition("```yaml\n")[2].partition("```")[0])
    events, railhead = Events(cluster), CommandLine(cluster, tmp_path)
    before: Mapping[int, Callable[[], None]] = {
        2: events.take_gpus,
        3: events.wait_unschedulable,
        4: events.wait_failed,
        7: events.wait_succeeded,
    }
    steps = read_steps(page)
    assert len(steps) == 10
    wrong = []
    for number, step in enumerate(steps, 1):
        if number in before:
            before[number]()
        output = call(railhead, step.command, cluster.namespace)
        if not is_as_described(output, step.output or ""):
            wrong.append(f"{step.command}{output}")
    assert not wrong, "\n".join(wrong)
    assert (tmp_path / "best" / "model").read_text() == "7"
    jobs = yaml.safe_load(cluster("get", "trainjobs.railhead.dev", "-l", "experiment=a", "-o", "json"))["items"]
    assert [each for each in jobs if not each["metadata"].get("deletionTimestamp")] == []


def call(railhead: CommandLine, command: str, namespace: str) -> str:
    """Returns what a command of the page prints, with the namespace of the page."""
    program, *arguments = shlex.split(command)
    assert program == "railhead"
    return railhead(*arguments).replace(f"{namespace}/", "default/")
