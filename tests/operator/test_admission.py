"""An operator with the chart's rights and flags, on an API server that lacks the chart's policy, and then has it."""

from __future__ import annotations

from pathlib import Path

import pytest

from railhead.kube.kinds import ADMISSION_POLICY, ADMISSION_POLICY_BINDING
from railhead.local.control_plane import ControlPlane
from tests.api.server import ApiServer
from tests.operator.account import make_account
from tests.operator.audit import AuditLog
from tests.operator.running import RunningOperator

NAMESPACE = "restricts-jobs"
VALUES = {"watchNamespaces": [NAMESPACE], "jobs": {"restrictPodTemplate": True}}
MISSING = "railhead_admission_policy_missing"


@pytest.mark.usefixtures("operator")  # it installs the CRD
def test_the_operator_warns_while_the_policy_is_gone(
    audited_plane: tuple[ControlPlane, AuditLog], server: ApiServer, tmp_path: Path
) -> None:
    with make_account(audited_plane[0], NAMESPACE, VALUES, tmp_path / "kubeconfig") as rendered:
        [flag] = [arg for arg in rendered.container["args"] if arg.startswith("--admission-policy=")]
        flags = [flag, f"--watch-namespace={NAMESPACE}"]
        operator = RunningOperator(tmp_path / "kubeconfig", tmp_path, namespace=NAMESPACE, flags=flags)
        bodies = {kind: rendered.one(kind.kind) for kind in (ADMISSION_POLICY, ADMISSION_POLICY_BINDING)}
        try:
            operator.start()
            assert f"{MISSING} 1.0" in operator.metrics()
            assert "not found: nothing restricts what jobs may use" in operator.log.read_text()
            operator.end()
            for kind, body in bodies.items():
                assert server.request("POST", kind.path(), body).status == 201
            operator.start()
            assert f"{MISSING} 0.0" in operator.metrics()
        finally:
            operator.stop()
            for kind, body in bodies.items():
                server.request("DELETE", kind.path(name=body["metadata"]["name"]))
