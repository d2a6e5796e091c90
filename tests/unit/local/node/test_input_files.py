"""The input of a pod on a local node, where mounts are folders of the machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from railhead.contract import environment as e
from railhead.contract.job_input import CA_KEY, FILE, JobInput
from railhead.driver.messages.attempt_errors import AttemptFailed
from railhead.driver.pod.mounted_input import check_content
from railhead.local.node.input_files import rewrite_input
from railhead.resources.base import JobRef
from railhead.resources.mounts import build_input, derive_text, get_digest
from tests.unit.builders import SETTINGS, UID, make_mounts, make_spec

JOB = JobRef("team", "digits", UID)
SPEC = make_spec(
    run={"storagePath": "/mnt/runs/team"},
    source={"inline": {"train.py": "x = 1"}},
    datasets={
        "train": {"format": "csv", "uri": "/data/train"},
        "far": {"format": "csv", "uri": "s3://bucket/data"},
        "made": {"function": "data:build"},
    },
)
OWN = make_mounts(JOB, SPEC, SETTINGS)
MOUNTS = {"/mnt/runs": "/home/me/runs", "/data": "/home/me/data", "bucket": "/wrong"}


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """The environment of a container with its input, as the node wrote it."""
    data = build_input(JOB, SPEC, SETTINGS)["data"]
    for folder in ("input", "source"):
        (tmp_path / folder).mkdir()
    for name in (FILE, CA_KEY):
        (tmp_path / "input" / name).write_text(data[name])
    (tmp_path / "source" / "train.py").write_text(data["source.train.py"])
    (tmp_path / "token").write_text(derive_text(JOB, SETTINGS, OWN.input))
    return {
        e.INPUT: str(tmp_path / "input"),
        e.SOURCE: str(tmp_path / "source"),
        "RAY_AUTH_TOKEN_PATH": str(tmp_path / "token"),
        e.INPUT_DIGEST: get_digest(OWN.input),
        e.TOKEN_DIGEST: get_digest(OWN.secret),
        e.TEMP: str(tmp_path / "temp"),
    }


def test_the_driver_gets_real_paths_and_accepts_the_copy(env: dict[str, str], tmp_path: Path) -> None:
    before = JobInput.from_json(Path(env[e.INPUT], FILE).read_text())
    found = rewrite_input(env, MOUNTS, folder=tmp_path / "copy")
    used = check_content({**env, **found})
    job = JobInput.from_json(Path(used[e.INPUT], FILE).read_text())
    assert job.storage_path == "/home/me/runs/team"
    uris = {name: each.uri for name, each in job.datasets.items()}
    assert uris == {"train": "/home/me/data/train", "far": "s3://bucket/data", "made": ""}
    assert replace(job, storage_path=before.storage_path, datasets=before.datasets) == before
    assert Path(used[e.INPUT], CA_KEY).read_text() == "CA"


def change_input(env: dict[str, str]) -> None:
    path = Path(env[e.INPUT], FILE)
    path.write_text(path.read_text().replace("digits", "others"))


REPLACED: dict[str, Callable[[dict[str, str]], object]] = {
    "input": change_input,
    "CA": lambda env: Path(env[e.INPUT], CA_KEY).write_text("another"),
    "code": lambda env: Path(env[e.SOURCE], "train.py").write_text("foreign"),
    "more code": lambda env: Path(env[e.SOURCE], "torch.py").write_text("foreign"),
}


@pytest.mark.parametrize("change", REPLACED.values(), ids=REPLACED)
def test_the_driver_refuses_what_was_replaced_by_the_name_of_the_operators_object(
    env: dict[str, str], tmp_path: Path, change: Callable[[dict[str, str]], object]
) -> None:
    change(env)
    found = rewrite_input(env, MOUNTS, folder=tmp_path / "copy")
    with pytest.raises(AttemptFailed, match=f"whose name ends with input-{get_digest(OWN.input)} was replaced"):
        check_content({**env, **found})


@pytest.mark.parametrize("name", [e.INPUT, e.INPUT_DIGEST])
def test_a_container_without_an_input_gets_none(env: dict[str, str], tmp_path: Path, name: str) -> None:
    del env[name]
    assert rewrite_input(env, MOUNTS, folder=tmp_path / "copy") == {}
