"""The volume for a claim of the local storage class."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from railhead.local.node.provisioner import build_storage_class, build_volume

CLAIM: dict[str, Any] = {
    "metadata": {"namespace": "team", "name": "runs", "uid": "u-1"},
    "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "5Gi"}}},
}


def test_a_volume_is_bound_to_one_claim_and_matches_it() -> None:
    volume = build_volume(CLAIM, Path("/volumes/team/runs"))
    spec = volume["spec"]
    assert spec["claimRef"].items() >= {"namespace": "team", "name": "runs", "uid": "u-1"}.items()
    assert (spec["capacity"], spec["accessModes"]) == ({"storage": "5Gi"}, ["ReadWriteMany"])
    assert spec["hostPath"]["path"] == "/volumes/team/runs"
    assert spec["storageClassName"] == build_storage_class()["metadata"]["name"]
    assert spec["persistentVolumeReclaimPolicy"] == "Retain", "checkpoints outlive their claim"


def test_a_recreated_claim_gets_another_volume() -> None:
    again = {**CLAIM, "metadata": {**CLAIM["metadata"], "uid": "u-2"}}
    assert build_volume(CLAIM, Path("/v"))["metadata"]["name"] != build_volume(again, Path("/v"))["metadata"]["name"]


def test_the_class_is_the_default() -> None:
    annotations = build_storage_class()["metadata"]["annotations"]
    assert annotations == {"storageclass.kubernetes.io/is-default-class": "true"}
