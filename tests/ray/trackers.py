"""The real trackers, in environments of their own: MLflow's server alone is as large as all else that tests need."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.ray_matrix import build_constraints

from railhead.local.addresses import free_port
from tests.waiting import wait_until

PROJECT = Path(__file__).resolve().parents[2]
MLFLOW = "3.17.2"
CLIENTS = (f"mlflow-skinny=={MLFLOW}", "wandb==0.31.0", "tensorboard==2.21.0")
START_SECONDS = 120.0
UV = Path(sys.executable).with_name("uv")


@dataclass(frozen=True)
class Mlflow:
    """MLflow's server, by its REST interface."""

    address: str

    def is_up(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.address}/health", timeout=5):
                return True
        except OSError:
            return False

    def list_runs(self) -> list[dict[str, Any]]:
        """Returns all runs of all experiments."""
        experiments = self._post("experiments/search", {"max_results": 100})["experiments"]
        ids = [each["experiment_id"] for each in experiments]
        runs: list[dict[str, Any]] = self._post("runs/search", {"experiment_ids": ids}).get("runs", [])
        return runs

    def list_steps(self, run_id: str, metric: str) -> list[int]:
        """Returns the step of each value that a metric has, in the order in which they were logged."""
        query = f"run_id={run_id}&metric_key={metric}&max_results=1000"
        with urllib.request.urlopen(f"{self.address}/api/2.0/mlflow/metrics/get-history?{query}", timeout=30) as answer:
            values = json.load(answer)["metrics"]
        return [int(each.get("step", 0)) for each in sorted(values, key=_read_timestamp)]

    def _post(self, method: str, values: dict[str, Any]) -> dict[str, Any]:
        request = urllib.request.Request(
            f"{self.address}/api/2.0/mlflow/{method}",
            json.dumps(values).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            found: dict[str, Any] = json.load(answer)
        return found


def _read_timestamp(value: dict[str, Any]) -> int:
    return int(value["timestamp"])


def install_clients() -> Path:
    """Returns a folder for PYTHONPATH with what training code imports, with the pins of all other tests."""
    folder = _find_cache() / f"clients-py{sys.version_info.major}.{sys.version_info.minor}"
    constraints = folder.with_suffix(".txt")
    constraints.parent.mkdir(parents=True, exist_ok=True)
    constraints.write_text(build_constraints((PROJECT / "constraints.txt").read_text()))
    place = ["--target", str(folder), "--python", sys.executable, "--constraint", str(constraints)]
    subprocess.run([str(UV), "pip", "install", "--quiet", *place, *CLIENTS], check=True)
    return folder


def install_server() -> Path:
    """Returns the command mlflow."""
    folder = _find_cache() / f"mlflow-{MLFLOW}"
    if not (folder / "bin" / "python").exists():
        subprocess.run([UV, "venv", "--quiet", "--python", sys.executable, folder], check=True)
    python = folder / "bin" / "python"
    subprocess.run([UV, "pip", "install", "--quiet", "--python", python, f"mlflow=={MLFLOW}"], check=True)
    return folder / "bin" / "mlflow"


def _find_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "railhead" / "trackers"


@contextmanager
def serve_mlflow(folder: Path) -> Iterator[Mlflow]:
    """Yields a server on loopback with its database in the folder, and ends it."""
    port = free_port()
    found = Mlflow(f"http://127.0.0.1:{port}")
    options = ["--host=127.0.0.1", f"--port={port}", "--workers=1", f"--backend-store-uri=sqlite:///{folder}/mlflow.db"]
    variables = {**os.environ, "HOME": str(folder), "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    variables.pop("PYTHONPATH", None)
    with subprocess.Popen(
        [install_server(), "server", *options, f"--artifacts-destination={folder}/artifacts"],
        env=variables,
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as server:
        try:
            wait_until("MLflow's server answers", found.is_up, seconds=START_SECONDS)
            yield found
        finally:
            os.killpg(server.pid, signal.SIGTERM)  # the command starts the server as a process of its own
