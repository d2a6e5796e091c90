"""Simulated nodes and kubelets: KWOK at the pinned version, built with Go from the module in tools/go/kwok."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.go_program import SOURCES, NotBuilt, resolve_program

from benchmarks.run import RunFailed
from railhead.json_object import Object
from railhead.local import Echo
from railhead.local.addresses import free_port
from railhead.local.control_plane import ControlPlane
from railhead.local.control_plane.binaries import GoModule, find_go
from railhead.local.install import Kubectl
from railhead.local.processes import end_child, spawn

KWOK_VERSION = "0.8.0"
MODULE = "sigs.k8s.io/kwok"
FLAGS = f"-s -w -X {MODULE}/pkg/consts.Version=v{KWOK_VERSION}"
STAGES = ("kustomize/stage/node/fast", "kustomize/stage/pod/fast")
MARK = {"kwok.x-k8s.io/node": "fake"}
READY_SECONDS = 60.0


def resolve_kwok(echo: Echo) -> Path:
    """The program. Raises NotBuilt."""
    module = GoModule("kwok", package=f"{MODULE}/cmd/kwok", flags=FLAGS)
    return resolve_program(module, KWOK_VERSION, echo) / "kwok"


def read_stages() -> str:
    """KWOK's own, from its module: nodes become ready, and pods run, at once. Raises NotBuilt."""
    go = find_go()
    if go is None:
        raise NotBuilt("no Go to find KWOK's stages with; install one")
    command = [*go, "list", "-mod=readonly", "-m", "-f", "{{.Dir}}", MODULE]
    env = {**os.environ, "GOTOOLCHAIN": "local"}
    found = subprocess.run(command, cwd=SOURCES / "kwok", env=env, capture_output=True, text=True, check=True)
    folder = Path(found.stdout.strip())
    files = [path for stage in STAGES for path in sorted((folder / stage).glob("*.yaml"))]
    return "---\n".join(path.read_text() for path in files if path.name != "kustomization.yaml")


@contextmanager
def simulate_nodes(plane: ControlPlane, program: Path, *, nodes: int) -> Iterator[None]:
    """Nodes that are ready, and whose pods run as soon as they are bound.

    Raises:
        RunFailed: a node did not become ready.
    """
    config = plane.folder / "kwok.yaml"
    config.write_text(read_stages())
    mark = ",".join(f"{name}={value}" for name, value in MARK.items())
    command = [
        str(program),
        f"--kubeconfig={plane.kubeconfig}",
        f"--config={config}",
        f"--manage-nodes-with-annotation-selector={mark}",
        f"--server-address=127.0.0.1:{free_port()}",
    ]
    log = plane.folder / "logs" / "kwok.log"
    process = spawn(command, log=log)
    try:
        kubectl = Kubectl(plane.binaries / "kubectl", plane.kubeconfig)
        kubectl.apply([_build_node(number) for number in range(nodes)])
        deadline = time.monotonic() + READY_SECONDS
        while kubectl("get", "nodes", "-o", "jsonpath={.items[*].status.phase}").split() != ["Running"] * nodes:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RunFailed(f"the simulated nodes are not ready\n{log.read_text()[-3000:]}")
            time.sleep(0.2)
        yield
    finally:
        end_child(process, grace_seconds=0)


def _build_node(number: int) -> Object:
    """KWOK gives it 1,000 processors, 1 TiB and room for a million pods."""
    name = f"node-{number}"
    metadata = {"name": name, "annotations": MARK, "labels": {"kubernetes.io/hostname": name}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata}
