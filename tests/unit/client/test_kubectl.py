"""The command of kubectl."""

from __future__ import annotations

from pathlib import Path

import pytest

from railhead.client.errors import ClientError
from railhead.client.kubectl import build_exec


def test_the_options_of_the_cluster_are_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ClientError, match="needs kubectl on the PATH"):
        build_exec("a", None, None)
    kubectl = tmp_path / "kubectl"
    kubectl.touch(0o755)
    assert build_exec("a", None, None) == (str(kubectl), "exec", "-n", "a")
    assert build_exec("a", "f", "c")[4:] == ("--kubeconfig", "f", "--context", "c")
