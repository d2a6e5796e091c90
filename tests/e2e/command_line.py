"""`railhead` as a user runs it against the cluster of the end-to-end tests."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import railhead
from tests.conftest import echo
from tests.e2e.cluster import PATIENCE, Cluster


class CommandLine:
    """Runs commands in a folder, with the kubectl of the cluster on the PATH."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self._cluster, self._folder = cluster, folder
        programs = Path(cluster.kubectl.program).resolve().parent
        source = str(Path(railhead.__file__).parents[1])
        self._environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": source}

    def start(self, command: str, *arguments: str) -> subprocess.Popen[str]:
        target = ("--kubeconfig", str(self._cluster.kubectl.kubeconfig), "-n", self._cluster.namespace)
        line = [sys.executable, "-P", "-m", "railhead.cli", command, *target, *arguments]
        pipe = subprocess.PIPE
        return subprocess.Popen(line, cwd=self._folder, env=self._environment, stdout=pipe, stderr=pipe, text=True)

    def __call__(self, *arguments: str, code: int = 0) -> str:
        """Returns what it prints, and its remarks if it fails as expected."""
        began = time.monotonic()
        with self.start(*arguments) as process:
            output, remarks = process.communicate(timeout=PATIENCE)
        echo(f"railhead {' '.join(arguments)}: {time.monotonic() - began:.1f} s")
        assert process.returncode == code, f"{arguments}\n{output}{remarks}"
        return output if code == 0 else remarks
