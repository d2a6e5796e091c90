"""The operator with an older CRD, on its own API server: it exits, and its log states what the user must do."""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from railhead.api.crd import build_crd
from railhead.api.served import PATH
from railhead.local.control_plane import ControlPlane
from railhead.local.control_plane.binaries import resolve
from railhead.local.install import Kubectl, KubectlFailed, install, make_operator_kubeconfig
from tests.operator.running import RunningOperator
from tests.waiting import wait_until


def build_older_crd() -> dict[str, Any]:
    """As of a release with neither `env` nor the phase Restarting."""
    older = copy.deepcopy(build_crd())
    root = older["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    del root["x-kubernetes-validations"]  # they read the field
    fields = root["properties"]
    del fields["spec"]["properties"]["env"]
    rules = fields["spec"]["x-kubernetes-validations"]
    fields["spec"]["x-kubernetes-validations"] = [rule for rule in rules if "self.env)" not in rule["rule"]]
    fields["status"]["properties"]["phase"]["enum"].remove("Restarting")
    return older


def serves_older(kubectl: Kubectl) -> bool:
    """In quotes, as a value of the enum: a description names the phase too."""
    try:
        return '"Restarting"' not in kubectl("get", "--raw", PATH)
    except KubectlFailed:  # the API server does not serve the group's schema yet
        return False


@pytest.fixture
def kubectl(tmp_path: Path) -> Iterator[Kubectl]:
    plane = ControlPlane(tmp_path / "plane", binaries=resolve(lambda text: print(text, file=sys.stderr)))
    try:
        plane.start(("etcd", "kube-apiserver"))
        kubectl = Kubectl(plane.binaries / "kubectl", plane.kubeconfig)
        install(kubectl)
        make_operator_kubeconfig(kubectl, plane, tmp_path / "operator.kubeconfig")
        yield kubectl
    finally:
        plane.stop()


@pytest.mark.slow  # tests/unit/controller/test_definition.py has the message and the wait, tests/api what is served
def test_an_older_crd_is_rejected_with_a_message_and_the_operator_waits_for_a_newer_one(
    kubectl: Kubectl, tmp_path: Path
) -> None:
    """A CRD that is applied together with the operator is served a moment later."""
    kubectl.apply([build_older_crd()])
    wait_until("the older one", lambda: serves_older(kubectl))
    operator = RunningOperator(tmp_path / "operator.kubeconfig", tmp_path)
    operator.launch()
    assert operator.wait() == 1
    output = operator.log.read_text()
    assert "is older than this operator needs (spec.env: missing; status.phase: 'Restarting' is not allowed)" in output
    assert "kubectl apply --server-side -f crds/" in output
    assert "Traceback" not in output
    operator.launch()
    try:
        wait_until(
            "its next check", lambda: operator.log.read_text().count("Checking again") > output.count("Checking again")
        )
        kubectl.apply([build_crd()])
        operator.wait_ready()
    finally:
        operator.stop()
