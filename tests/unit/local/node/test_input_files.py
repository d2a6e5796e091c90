"""The input of a pod on a local node, where mounts are folders of the machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from railhead.contract import environment as e
from railhead.contract.job_input import CA_KEY, FILE, JobInput
from railhead.driver.pod.mounted_input import check_content
from railhead.local.node.input_files import rewrite_input
from railhead.resources.base import JobRef
from railhead.resources.mounts import build_input, build_mounts, get_digest
from tests.unit.builders import SETTINGS, UID, make_spec

JOB = JobRef("team", "digits", UID)
SPEC = make_spec(
    run={"storagePath": "/mnt/runs/team"},
    datasets={
        "train": {"format": "csv", "uri": "/data/train"},
        "far": {"format": "csv", "uri": "s3://bucket/data"},
        "made": {"function": "data:build"},
    },
)
MOUNTS = {"/mnt/runs": "/home/me/runs", "/data": "/home/me/data", "bucket": "/wrong"}


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """The environment of a container with its input, as the node wrote it."""
    data = build_input(JOB, SPEC, SETTINGS)["data"]
    for name in (FILE, CA_KEY):
        (tmp_path / name).write_text(data[name])
    own = build_mounts(JOB, SPEC, SETTINGS)
    return {e.INPUT: str(tmp_path), e.INPUT_DIGEST: get_digest(own.input), e.TEMP: str(tmp_path / "temp")}


def test_the_driver_gets_real_paths_and_accepts_the_copy(env: dict[str, str], tmp_path: Path) -> None:
    before = JobInput.from_json((tmp_path / FILE).read_text())
    found = rewrite_input(env, MOUNTS, folder=tmp_path / "copy")
    used = check_content({**env, **found})
    job = JobInput.from_json(Path(used[e.INPUT], FILE).read_text())
    assert job.storage_path == "/home/me/runs/team"
    uris = {name: each.uri for name, each in job.datasets.items()}
    assert uris == {"train": "/home/me/data/train", "far": "s3://bucket/data", "made": ""}
    assert (job.uid, job.report_url, job.scaling) == (before.uid, before.report_url, before.scaling)
    assert Path(used[e.INPUT], CA_KEY).read_text() == "CA"


def test_an_input_of_somebody_else_stays_for_the_driver_to_refuse(env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / FILE).write_text((tmp_path / FILE).read_text().replace("digits", "others"))
    assert rewrite_input(env, MOUNTS, folder=tmp_path / "copy") == {}


@pytest.mark.parametrize("name", [e.INPUT, e.INPUT_DIGEST])
def test_a_container_without_an_input_gets_none(env: dict[str, str], tmp_path: Path, name: str) -> None:
    del env[name]
    assert rewrite_input(env, MOUNTS, folder=tmp_path / "copy") == {}
