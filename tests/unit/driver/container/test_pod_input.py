"""A pod runs with what the operator put into it, or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from railhead.contract import environment as e
from railhead.contract.digest import digest
from railhead.contract.outcome import Outcome
from railhead.driver.__main__ import main
from railhead.driver.messages.attempt_errors import AttemptFailed
from railhead.driver.pod.mounted_input import check_content
from railhead.resources.base import JobRef
from railhead.resources.mounts import build_input, derive_text, get_digest
from tests.unit.builders import SETTINGS, UID, make_mounts, make_spec

JOB = JobRef("team", "digits", UID)
SPEC = make_spec(source={"inline": {"train.py": "x = 1", "notes.txt": "é"}})
OWN = make_mounts(JOB, SPEC, SETTINGS)


@pytest.fixture
def pod(tmp_path: Path) -> dict[str, str]:
    """The environment of a pod with mounts as the kubelet makes them."""
    files = build_input(JOB, SPEC, SETTINGS)["data"]
    for folder in ("input", "source", "auth", "source/..data"):
        (tmp_path / folder).mkdir()
    for name, text in files.items():
        folder, name = ("source", name.removeprefix("source.")) if name.startswith("source.") else ("input", name)
        (tmp_path / folder / name).write_text(text)
    (tmp_path / "auth" / "token").write_text(derive_text(JOB, SETTINGS, OWN.input))
    return {
        e.INPUT: str(tmp_path / "input"),
        e.SOURCE: str(tmp_path / "source"),
        "RAY_AUTH_TOKEN_PATH": str(tmp_path / "auth" / "token"),
        e.INPUT_DIGEST: get_digest(OWN.input),
        e.TOKEN_DIGEST: get_digest(OWN.secret),
        e.TEMP: str(tmp_path / "temp"),
        e.TERMINATION_MESSAGE: str(tmp_path / "log"),
        "OTHER": "kept",
    }


def test_a_pod_uses_copies_that_the_kubelet_does_not_update(pod: dict[str, str]) -> None:
    used = check_content(pod)
    assert used == {**pod, e.INPUT: f"{pod[e.TEMP]}/input", e.SOURCE: f"{pod[e.TEMP]}/source"}
    assert {path.name: path.read_text() for path in Path(used[e.SOURCE]).iterdir()} == {
        "train.py": "x = 1",
        "notes.txt": "é",
    }
    assert json.loads(Path(used[e.INPUT], "job.json").read_text())["uid"] == UID


def change_input(pod: dict[str, str]) -> None:
    path = Path(pod[e.INPUT], "job.json")
    path.write_text(path.read_text().replace("train:train_func", "os:abort"))


def change_code_and_its_digest(pod: dict[str, str]) -> None:
    Path(pod[e.SOURCE], "train.py").write_text("foreign")
    path = Path(pod[e.INPUT], "job.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), "source_digest": ""}))


REPLACED: dict[str, tuple[Callable[[dict[str, str]], object], str]] = {
    "function": (change_input, OWN.input),
    "CA": (lambda pod: Path(pod[e.INPUT], "report-ca.crt").write_text("another"), OWN.input),
    "no CA": (lambda pod: Path(pod[e.INPUT], "report-ca.crt").unlink(), OWN.input),
    "code": (lambda pod: Path(pod[e.SOURCE], "train.py").write_text("foreign"), OWN.input),
    "more code": (lambda pod: Path(pod[e.SOURCE], "torch.py").write_text("foreign"), OWN.input),
    "less code": (lambda pod: Path(pod[e.SOURCE], "notes.txt").unlink(), OWN.input),
    "code and digest": (change_code_and_its_digest, OWN.input),
    "token": (lambda pod: Path(pod["RAY_AUTH_TOKEN_PATH"]).write_text("guessed"), OWN.secret),
}


@pytest.mark.parametrize(("change", "name"), REPLACED.values(), ids=REPLACED)
def test_replaced_content_is_not_used(
    pod: dict[str, str], change: Callable[[dict[str, str]], object], name: str
) -> None:
    change(pod)
    with pytest.raises(AttemptFailed, match=f"whose name ends with [a-z]+-{get_digest(name)} was replaced; delete it"):
        check_content(pod)


def test_the_pod_ends_as_a_failure_of_the_infrastructure(pod: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Not of the configuration: the next attempt may find what the operator created again."""

    def stop(code: int) -> None:
        raise SystemExit(code)

    monkeypatch.setattr("os._exit", stop)
    monkeypatch.setattr("sys.argv", ["railhead.pyz", "head"])
    for name, value in pod.items():
        monkeypatch.setenv(name, value)
    Path(pod["RAY_AUTH_TOKEN_PATH"]).write_text("guessed")
    with pytest.raises(SystemExit) as ended:
        main()
    outcome = Outcome.from_json(Path(pod[e.TERMINATION_MESSAGE]).read_text())
    assert (ended.value.code, outcome and outcome.reason) == (66, "ContentReplaced")


def test_the_container_that_fetches_code_has_the_input_only(pod: dict[str, str]) -> None:
    del pod[e.TOKEN_DIGEST], pod["RAY_AUTH_TOKEN_PATH"]
    assert check_content(pod)[e.SOURCE] == pod[e.SOURCE]
    assert digest(b"") not in pod.values()
