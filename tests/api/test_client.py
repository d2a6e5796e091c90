"""The commands against a real API server: what they print, change and refuse, with their exit codes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from railhead.cli.main import main
from railhead.client.cluster.connection import Cluster, Target, open_cluster
from railhead.client.cluster.waiting import wait_for
from railhead.client.exit_codes import ClientError, ExitCode
from railhead.client.goals import Goal
from railhead.json_object import Object
from railhead.local.control_plane import ControlPlane
from tests.api.conftest import RUNS_COMMANDS, Run
from tests.api.server import MERGE_PATCH, ApiServer
from tests.api.trainjobs import PATH, make_job

pytestmark = RUNS_COMMANDS
SUSPENDED = [
    {"type": "Suspended", "status": "True", "reason": "Suspended", "lastTransitionTime": "2026-01-01T00:00:00Z"}
]
FAILED = [{"type": "Failed", "status": "True", "reason": "OOMKilled", "lastTransitionTime": "2026-01-01T00:00:00Z"}]


def create(server: ApiServer, name: str, labels: Object | None = None, **spec: Any) -> Object:
    job = make_job({f"spec.{key}": value for key, value in spec.items()})
    job["metadata"] |= {"name": name, "labels": labels or {}}
    answer = server.request("POST", PATH, job)
    assert answer.status == 201, answer.message
    return answer.body


def report(server: ApiServer, name: str, **status: Any) -> None:
    """Writes the status as an operator does."""
    answer = server.request("PATCH", f"{PATH}/{name}/status", {"status": status}, content_type=MERGE_PATCH)
    assert answer.status == 200, answer.message


def read(server: ApiServer, name: str) -> Object:
    return server.request("GET", f"{PATH}/{name}").body


def test_list_selects_by_label_and_shows_what_each_job_waits_for(
    run: Run, api_server: ApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    create(api_server, "one", {"team": "a"})
    create(api_server, "two", {"team": "b"})
    report(api_server, "two", phase="Failed", conditions=FAILED)
    assert run("list", "-l", "team=b") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines] == [["NAME", "PHASE"], ["two", "Failed"]]
    assert run("list", "-A", "-o", "json") == 0
    rows = [row for row in json.loads(capsys.readouterr().out)["items"] if row["namespace"] == "default"]
    assert {(row["name"], row["waitsFor"]) for row in rows} == {("one", ""), ("two", "OOMKilled")}


@pytest.mark.parametrize("command", ["status", "why", "timeline", "suspend", "resume", "retry", "delete", "wait"])
def test_a_job_that_does_not_exist_has_its_exit_code(
    command: str, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(command, "nothing") == ExitCode.NOT_FOUND
    assert 'trainjobs.railhead.dev "nothing" not found' in capsys.readouterr().err


def test_status_and_why_read_pods_and_events_of_the_job(
    run: Run, api_server: ApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    uid = create(api_server, "one")["metadata"]["uid"]
    event = {
        "metadata": {"name": "one.1", "namespace": "default"},
        "involvedObject": {"kind": "TrainJob", "namespace": "default", "name": "one", "uid": uid},
        "reason": "Unschedulable",
        "message": "no node",
        "lastTimestamp": "2026-01-01T00:00:00Z",
    }
    assert api_server.request("POST", "/api/v1/namespaces/default/events", event).status == 201
    assert run("status", "one") == 0
    assert "Unschedulable: no node" in capsys.readouterr().out
    assert run("why", "one") == 0
    assert "The operator has not seen the job's spec as it is now." in capsys.readouterr().out
    assert run("timeline", "one", "-o", "yaml") == 0
    moments = yaml.safe_load(capsys.readouterr().out)["moments"]
    assert {each["what"] for each in moments} >= {"Created", "Unschedulable"}


def test_suspend_and_resume_with_a_change(run: Run, api_server: ApiServer, capsys: pytest.CaptureFixture[str]) -> None:
    create(api_server, "one")
    assert run("suspend", "one") == 0
    assert read(api_server, "one")["spec"]["suspend"] is True
    assert run("resume", "one", "--set", "image=registry.example/digits:2") == ExitCode.REFUSED
    assert "can change only while the job is suspended: spec.image" in capsys.readouterr().err
    report(api_server, "one", phase="Suspended", conditions=SUSPENDED)
    change = ["--set", "image=registry.example/digits:2", "--set", "scaling.resourcesPerWorker.memory=64Gi"]
    assert run("resume", "one", "--set", "scaling.workers=8") == ExitCode.REFUSED
    assert 'unknown field "spec.scaling.workers"' in capsys.readouterr().err
    assert run("resume", "one", *change) == 0
    spec = read(api_server, "one")["spec"]
    assert (spec["suspend"], spec["image"]) == (False, "registry.example/digits:2")
    assert spec["scaling"]["resourcesPerWorker"]["memory"] == "64Gi"


def test_retry_creates_the_next_job_and_leaves_the_finished_one(
    run: Run, api_server: ApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    create(api_server, "one")
    assert run("retry", "one") == ExitCode.REFUSED
    checkpoint = {"uri": "/runs/x/checkpoint_4", "index": 4}
    report(api_server, "one", phase="Failed", conditions=FAILED, checkpoint=checkpoint)
    before = read(api_server, "one")
    assert run("retry", "one", "--set", "scaling.numWorkers=8") == 0
    new = read(api_server, "one-r2")
    assert new["spec"]["resumeFrom"]["checkpoint"] == "/runs/x/checkpoint_4"
    assert new["spec"]["scaling"]["numWorkers"] == 8
    assert read(api_server, "one") == before
    capsys.readouterr()
    assert run("retry", "one") == ExitCode.REFUSED
    assert "already exists; choose another name" in capsys.readouterr().err
    assert run("retry", "one", "--name", "x", "--set", "scaling.workers=8") == ExitCode.REFUSED
    assert 'unknown field "spec.scaling.workers"' in capsys.readouterr().err


def test_delete_asks_before_more_than_one(run: Run, api_server: ApiServer, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("one", "two", "three"):
        create(api_server, name, {"team": "a"})
    assert run("delete", "one") == 0
    assert run("delete", "-l", "team=a") == ExitCode.USAGE
    assert "use --yes" in capsys.readouterr().err
    assert read(api_server, "two")["kind"] == "TrainJob"
    assert run("delete", "-l", "team=a", "--yes") == 0
    assert api_server.list(PATH) == []
    assert run("delete") == ExitCode.USAGE


def wait_in(plane: ControlPlane, goal: Goal, change: Callable[[], None], **options: Any) -> tuple[bool, str, list[str]]:
    """Waits for a job; makes the change once the first phase is known."""
    said: list[str] = []

    async def run_it() -> tuple[bool, str, list[str]]:
        async with open_cluster(Target(str(plane.kubeconfig))) as cluster:
            ending = await wait_for(cluster, "one", goal, timeout=options.get("timeout", 30), echo=note)
            return ending.is_reached, ending.message, said

    def note(text: str) -> None:
        said.append(text)
        if len(said) == 1:
            change()

    return asyncio.run(run_it())


@pytest.mark.parametrize(
    ("goal", "status", "is_reached"),
    [
        ("suspended", {"phase": "Suspended", "conditions": SUSPENDED}, True),
        ("failed", {"phase": "Failed", "conditions": FAILED}, True),
        ("finished", {"phase": "Failed", "conditions": FAILED}, False),
        ("running", {"phase": "Failed", "conditions": FAILED}, False),
        ("checkpoint", {"checkpoint": {"uri": "/c", "index": 3}}, True),
    ],
)
def test_wait_ends_when_the_job_gets_there_or_never_will(
    run: Run, control_plane: ControlPlane, api_server: ApiServer, goal: Goal, status: Object, is_reached: bool
) -> None:
    create(api_server, "one")
    report(api_server, "one", phase="Pending")
    reached, _, said = wait_in(control_plane, goal, lambda: report(api_server, "one", **status))
    assert reached is is_reached
    assert said[0] == "one: Pending"


def test_wait_ends_when_the_job_is_deleted(run: Run, control_plane: ControlPlane, api_server: ApiServer) -> None:
    create(api_server, "one")
    report(api_server, "one", phase="Pending")

    def delete() -> None:
        api_server.request("DELETE", f"{PATH}/one")

    found = wait_in(control_plane, "finished", delete)
    assert found[:2] == (False, "one was deleted")


def test_wait_ends_with_its_timeout(run: Run, control_plane: ControlPlane, api_server: ApiServer) -> None:
    create(api_server, "one")
    with pytest.raises(ClientError, match=r"one is not running after 0.3 s .*railhead why one") as error:
        wait_in(control_plane, "running", lambda: None, timeout=0.3)
    assert error.value.code == ExitCode.TIMED_OUT


def kubeconfig_without_rights(plane: ControlPlane, server: ApiServer, folder: Path) -> Path:
    """Returns that of a service account that may do nothing."""
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    server.request("POST", accounts, {"metadata": {"name": "guest"}})
    token = server.request("POST", f"{accounts}/guest/token", {"spec": {"expirationSeconds": 3600}}).body
    config = yaml.safe_load(Path(plane.kubeconfig).read_text())
    config["users"][0]["user"] = {"token": token["status"]["token"]}
    path = folder / "guest.kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


@pytest.mark.parametrize("arguments", [["list"], ["list", "-w"], ["why", "one"], ["suspend", "one"], ["wait", "one"]])
def test_what_is_not_permitted_is_said(
    run: Run,
    control_plane: ControlPlane,
    api_server: ApiServer,
    tmp_path: Path,
    arguments: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    create(api_server, "one")
    config = kubeconfig_without_rights(control_plane, api_server, tmp_path)
    assert main([*arguments, "--kubeconfig", str(config)]) == ExitCode.DENIED
    assert "ask an administrator for the right" in capsys.readouterr().err


def test_pods_that_may_not_be_read_are_named(
    run: Run, control_plane: ControlPlane, api_server: ApiServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    create(api_server, "one")
    config = kubeconfig_without_rights(control_plane, api_server, tmp_path)
    rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
    rule = {"apiGroups": ["railhead.dev"], "resources": ["trainjobs"], "verbs": ["get", "list"]}
    api_server.request("POST", f"{rbac}/roles", {"metadata": {"name": "guest"}, "rules": [rule]})
    subject = {"kind": "ServiceAccount", "name": "guest", "namespace": "default"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "guest"}
    binding = {"metadata": {"name": "guest"}, "subjects": [subject], "roleRef": reference}
    api_server.request("POST", f"{rbac}/rolebindings", binding)
    try:
        assert main(["why", "one", "--kubeconfig", str(config)]) == 0
    finally:
        api_server.request("DELETE", f"{rbac}/rolebindings/guest")
    output = capsys.readouterr().out
    assert "The pods could not be read: " in output
    assert "The events could not be read: " in output


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (["--context", "other"], "there is no context other; the kubeconfig has: "),
        (["--kubeconfig", "/nothing"], "no cluster to talk to: "),
    ],
)
def test_a_kubeconfig_that_cannot_be_used_is_named(
    run: Run, change: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("list", *change) == ExitCode.UNREACHABLE
    assert message in capsys.readouterr().err


def test_an_api_server_that_does_not_answer_is_named(
    run: Run, control_plane: ControlPlane, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = yaml.safe_load(Path(control_plane.kubeconfig).read_text())
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:9"
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    assert main(["list", "--kubeconfig", str(tmp_path / "config")]) == ExitCode.UNREACHABLE
    assert "no answer from the API server" in capsys.readouterr().err


async def test_the_contexts_namespace_is_the_default(control_plane: ControlPlane, tmp_path: Path) -> None:
    config = yaml.safe_load(Path(control_plane.kubeconfig).read_text())
    config["contexts"][0]["context"]["namespace"] = "team-a"
    (tmp_path / "config").write_text(yaml.safe_dump(config))

    async def namespaces(target: Target) -> tuple[str, str | None]:
        async with open_cluster(target) as cluster:
            assert isinstance(cluster, Cluster)
            return cluster.namespace, cluster.scope

    path = str(tmp_path / "config")
    assert await namespaces(Target(path)) == ("team-a", "team-a")
    assert await namespaces(Target(path, namespace="b")) == ("b", "b")
    assert await namespaces(Target(path, is_everywhere=True)) == ("team-a", None)
    assert await namespaces(Target(str(control_plane.kubeconfig))) == ("default", "default")


def test_submit_checks_a_file_and_creates_its_job_once(
    run: Run, api_server: ApiServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(make_job({"spec.scaling.numWorkers": 2})))
    assert run("submit", str(file), "--dry-run") == 0
    assert "1 head, 2 worker pods with 2 workers" in capsys.readouterr().out
    assert api_server.list(PATH) == []
    assert run("submit", str(file)) == 0
    uid = read(api_server, "digits")["metadata"]["uid"]
    assert run("submit", str(file)) == 0
    assert "digits is this job already" in capsys.readouterr().out
    assert read(api_server, "digits")["metadata"]["uid"] == uid
    file.write_text(yaml.safe_dump(make_job({"spec.scaling.numWorkers": 3})))
    assert run("submit", str(file)) == ExitCode.REFUSED
    assert "spec.scaling.numWorkers: 3 instead of 2" in capsys.readouterr().err
    file.write_text(yaml.safe_dump(make_job({"metadata.name": "other", "spec.scaling.workers": 3})))
    assert run("submit", str(file)) == ExitCode.REFUSED
    assert 'unknown field "spec.scaling.workers"' in capsys.readouterr().err


def test_submit_creates_the_job_of_a_script(
    run: Run, api_server: ApiServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.py").write_text("def main():\n    pass\n")
    target = f"{tmp_path}/train.py:main"
    options = ["--image", "registry.example/train:1", "--storage", "s3://b/runs", "--workers", "4", "--gpus", "2"]
    assert run("submit", target, *options) == 0
    assert "8 nvidia.com/gpu" in capsys.readouterr().out
    assert read(api_server, "train")["spec"]["trainer"]["trainFunc"] == "train:main"
    assert run("submit", f"{tmp_path}/train.py:mian", *options) == ExitCode.USAGE
    assert "train.py has no function mian; it has main" in capsys.readouterr().err
    (tmp_path / "train.py").write_text("def main():\n    pass\n" + "#" * 40_000)
    assert run("submit", target, *options, "--name", "large") == ExitCode.REFUSED
    assert "source" in capsys.readouterr().err


def test_submit_looks_for_the_claims_that_the_job_mounts(
    run: Run, api_server: ApiServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.py").write_text("def main():\n    pass\n")
    words = ["submit", f"{tmp_path}/train.py:main", "--dry-run", "--image", "i", "--storage", "pvc:runs/cnn"]
    assert run(*words) == 0
    assert "runs: not found in namespace default; create it, or the job waits" in capsys.readouterr().out
    claims = "/api/v1/namespaces/default/persistentvolumeclaims"
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claim = {"metadata": {"name": "runs"}, "spec": spec}
    assert api_server.request("POST", claims, claim).status == 201
    try:
        assert run(*words) == 0
        assert "not found" not in capsys.readouterr().out
    finally:
        api_server.request("DELETE", f"{claims}/runs")
