"""`railhead submit --code` against a real API server: what is created, and what an interruption leaves behind."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from railhead.cli.main import main
from railhead.client.exit_codes import ExitCode
from railhead.client.submit.code_files import LONGEST_PATH, MOST_BYTES, MOST_FILES
from railhead.json_object import Object
from railhead.kube.client import KubeClient, Request
from railhead.local.control_plane import ControlPlane
from tests.api.conftest import RUNS_COMMANDS, Run
from tests.api.server import MERGE_PATCH, ApiServer
from tests.api.test_client import FAILED, kubeconfig_without_rights, report
from tests.api.trainjobs import PATH
from tests.waiting import wait_until

pytestmark = RUNS_COMMANDS
CORE = "/api/v1/namespaces/default"
MAPS, QUOTAS = f"{CORE}/configmaps", f"{CORE}/resourcequotas"
PENDING = "railhead.dev/code-pending"
Submit = Callable[..., int]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Code in two modules."""
    (tmp_path / "pkg").mkdir()
    (tmp_path / "train.py").write_text("from pkg.model import f\n\n\ndef main():\n    f()\n")
    (tmp_path / "pkg" / "model.py").write_text("def f(): ...\n")
    (tmp_path / "pkg" / "table.bin").write_bytes(b"\xff\x00")
    return tmp_path


@pytest.fixture
def submit(run: Run, api_server: ApiServer, folder: Path) -> Iterator[Submit]:
    """Submits the folder as the administrator; neither jobs nor ConfigMaps are left behind."""
    options = ["--image", "registry.example/train:1", "--storage", "s3://b/runs", "--code", str(folder)]
    yield lambda *rest: run("submit", f"{folder}/train.py:main", *options, *rest)
    for name in map_names(api_server):
        api_server.request("DELETE", f"{MAPS}/{name}")


def map_names(server: ApiServer) -> list[str]:
    return [name for each in server.list(MAPS) if "-code-" in (name := str(each["metadata"]["name"]))]


def read_job(server: ApiServer) -> Object:
    return server.request("GET", f"{PATH}/train").body


def check_complete(server: ApiServer) -> Object:
    """The job runs, and owns the one ConfigMap that it names."""
    job = read_job(server)
    assert not job["spec"].get("suspend")
    assert PENDING not in job["metadata"]["annotations"]
    [name] = map_names(server)
    stored = server.request("GET", f"{MAPS}/{name}").body
    assert job["spec"]["source"]["configMap"]["name"] == name
    assert [owner["uid"] for owner in stored["metadata"]["ownerReferences"]] == [job["metadata"]["uid"]]
    keys = {**stored["data"], **stored["binaryData"]}
    assert {item["path"] for item in job["spec"]["source"]["configMap"]["items"] if item["key"] in keys} == {
        "train.py",
        "pkg/model.py",
        "pkg/table.bin",
    }
    return stored


def test_a_folder_is_sent_as_an_immutable_config_map_that_the_job_owns(
    submit: Submit, api_server: ApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert submit("--dry-run") == 0
    output = capsys.readouterr().out
    assert "2 B  pkg/table.bin" in output
    assert "3 files, 61 B, in the ConfigMap train-code-" in output
    assert "railhead status" not in output
    assert not api_server.list(PATH) and not map_names(api_server)
    assert submit() == 0
    assert "railhead logs train -f" in capsys.readouterr().out
    stored = check_complete(api_server)
    change = {"data": dict.fromkeys(stored["data"], "")}
    answer = api_server.request("PATCH", f"{MAPS}/{stored['metadata']['name']}", change, content_type=MERGE_PATCH)
    assert "immutable" in answer.message


def test_what_else_the_file_contains_is_not_created_and_said_to_be_missing(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    file = Path(__file__).parents[2] / "manifests" / "examples" / "digits.yaml"
    assert run("submit", str(file), "--dry-run") == 0
    output = capsys.readouterr().out
    assert f"Not created PersistentVolumeClaim digits-runs: `kubectl apply -f {file}` creates it too" in output


class Terminal(io.StringIO):
    """A user's answers."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("answer", "options", "code", "jobs"),
    [("y\n", [], 0, 1), ("\n", [], ExitCode.USAGE, 0), ("", [], ExitCode.USAGE, 0), ("", ["--yes"], 0, 1)],
)
def test_on_a_terminal_the_user_is_asked_after_the_plan(
    answer: str,
    options: list[str],
    code: int,
    jobs: int,
    submit: Submit,
    api_server: ApiServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal(answer))
    assert submit(*options) == code
    assert len(api_server.list(PATH)) == len(map_names(api_server)) == jobs
    assert ("Create it? [y/N]" in capsys.readouterr().err) is not bool(options)


def test_the_same_folder_is_the_same_job_and_another_one_is_refused_by_file(
    submit: Submit, folder: Path, api_server: ApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert submit() == 0
    uid = read_job(api_server)["metadata"]["uid"]
    assert submit() == 0
    assert "train is this job already" in capsys.readouterr().out
    (folder / "pkg" / "model.py").write_text("def f(): pass\n")
    (folder / "pkg" / "new.py").write_text("")
    assert submit() == ExitCode.REFUSED
    assert capsys.readouterr().err.splitlines()[1:] == ["code: pkg/model.py differs", "code: pkg/new.py is new"]
    assert read_job(api_server)["metadata"]["uid"] == uid
    assert len(map_names(api_server)) == 1


class Death(BaseException):
    """The command ends at once, as by SIGKILL."""


def die_at_write(monkeypatch: pytest.MonkeyPatch, number: int, *, before: bool) -> None:
    """Lets the command die before the request of the write with this number, or before its answer."""
    send, count = KubeClient._call, 0

    async def call(self: KubeClient, request: Request, *, page_size: int = 1) -> Object:
        nonlocal count
        is_write = request.verb in ("create", "patch", "delete") and "dryRun" not in request.path
        count += is_write
        if is_write and count == number and before:
            raise Death
        answer = await send(self, request, page_size=page_size)
        if is_write and count == number:
            raise Death
        return answer

    monkeypatch.setattr(KubeClient, "_call", call)


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("number", [1, 2, 3])
def test_after_a_death_at_any_write_the_same_command_continues(
    number: int,
    before: bool,
    submit: Submit,
    api_server: ApiServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with monkeypatch.context() as patch, pytest.raises(Death):
        die_at_write(patch, number, before=before)
        submit()
    left = api_server.list(PATH)
    for job in left:
        is_complete = PENDING not in job["metadata"]["annotations"]
        assert job["spec"]["suspend"] is not is_complete
        assert is_complete is ((number, before) == (3, False))
    for name in map_names(api_server):
        owners = api_server.request("GET", f"{MAPS}/{name}").body["metadata"]["ownerReferences"]
        assert [owner["uid"] for owner in owners] == [job["metadata"]["uid"] for job in left]
    assert submit("--dry-run") == 0
    assert len(api_server.list(PATH)) == len(left)
    assert submit() == 0
    check_complete(api_server)


def test_a_job_without_its_code_says_so_and_is_not_resumed(
    submit: Submit,
    control_plane: ControlPlane,
    api_server: ApiServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with monkeypatch.context() as patch, pytest.raises(Death):
        die_at_write(patch, 2, before=True)
        submit()
    config = ["--kubeconfig", str(control_plane.kubeconfig)]
    assert main(["why", "train", *config]) == 0
    assert "`railhead submit` ended before it had sent the code" in capsys.readouterr().out
    assert main(["resume", "train", *config]) == ExitCode.REFUSED
    assert "train waits for its code" in capsys.readouterr().err


def test_the_config_map_goes_with_the_job_and_a_new_job_has_its_own(submit: Submit, api_server: ApiServer) -> None:
    assert submit() == 0
    old = check_complete(api_server)
    api_server.request("DELETE", f"{PATH}/train")
    assert submit() == 0  # garbage collection may or may not have removed the old one yet
    assert check_complete(api_server)["metadata"]["uid"] != old["metadata"]["uid"]
    api_server.request("DELETE", f"{PATH}/train")
    wait_until("the ConfigMap is deleted with its job", lambda: not map_names(api_server))


def test_a_config_map_of_another_owner_is_left_alone_and_named(
    submit: Submit, api_server: ApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert submit() == 0
    [name] = map_names(api_server)
    api_server.request("DELETE", f"{PATH}/train")
    api_server.request("DELETE", f"{MAPS}/{name}")
    foreign = {"metadata": {"name": name}, "data": {"train.py": "import evil"}}
    assert api_server.request("POST", MAPS, foreign).status == 201
    capsys.readouterr()
    assert submit() == ExitCode.REFUSED
    error = capsys.readouterr().err
    assert "belongs to something else" in error
    assert "train exists and stays suspended" in error
    assert api_server.request("GET", f"{MAPS}/{name}").body["data"] == foreign["data"]
    api_server.request("DELETE", f"{MAPS}/{name}")
    assert submit() == 0
    check_complete(api_server)


def test_a_retry_keeps_the_code_when_the_finished_job_is_deleted(
    submit: Submit, control_plane: ControlPlane, api_server: ApiServer
) -> None:
    assert submit() == 0
    report(api_server, "train", phase="Failed", conditions=FAILED)
    assert main(["retry", "train", "--kubeconfig", str(control_plane.kubeconfig)]) == 0
    [name] = map_names(api_server)
    retried = api_server.request("GET", f"{PATH}/train-r2").body["metadata"]["uid"]
    api_server.request("DELETE", f"{PATH}/train")

    def read_owners() -> list[str]:
        metadata = api_server.request("GET", f"{MAPS}/{name}").body["metadata"]
        return [owner["uid"] for owner in metadata["ownerReferences"]]

    wait_until("garbage collection removes the deleted owner only", lambda: read_owners() == [retried])


# aiohttp warns of bodies above 1 MiB, which a command sends while it does nothing else.
@pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")
def test_as_much_as_is_permitted_is_accepted(submit: Submit, folder: Path, api_server: ApiServer) -> None:
    sizes = [(MOST_BYTES - 61) // 125] * 124
    deep = folder / ("d" * 100)
    deep.mkdir()
    for number, size in enumerate([*sizes, MOST_BYTES - 61 - sum(sizes)], start=100):
        (deep / f"{number}{'x' * 96}").write_bytes(b"\xff" * size)
    assert submit() == 0
    paths = [item["path"] for item in read_job(api_server)["spec"]["source"]["configMap"]["items"]]
    assert (len(paths), max(map(len, paths))) == (MOST_FILES, LONGEST_PATH)
    (folder / "one-more.py").write_text("")
    assert submit("--name", "other") == ExitCode.USAGE


def test_a_job_that_is_to_stay_suspended_is_not_resumed(submit: Submit, api_server: ApiServer) -> None:
    assert submit("--set", "suspend=true") == 0
    job = read_job(api_server)
    assert job["spec"]["suspend"] is True
    assert PENDING not in job["metadata"]["annotations"]
    assert submit("--set", "suspend=true") == 0


def test_what_the_api_server_refuses_leaves_nothing(
    submit: Submit, api_server: ApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert submit("--set", "scaling.workers=8") == ExitCode.REFUSED
    assert 'unknown field "spec.scaling.workers"' in capsys.readouterr().err
    assert submit("--env-from-secret", "Not A Name") == ExitCode.REFUSED
    assert not api_server.list(PATH) and not map_names(api_server)
    assert submit("--env-from-secret", "s3") == 0
    assert read_job(api_server)["spec"]["envFrom"] == [{"secretRef": {"name": "s3"}}]


def test_the_plan_has_what_the_quotas_leave(
    submit: Submit, api_server: ApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert submit("--dry-run", "--gpus", "1") == 0
    assert "Quota       none" in capsys.readouterr().out
    hard = {"requests.nvidia.com/gpu": "2", "requests.cpu": "50"}
    quota = {"metadata": {"name": "team"}, "spec": {"hard": hard}}
    assert api_server.request("POST", QUOTAS, quota).status == 201
    try:
        team = f"{QUOTAS}/team"
        wait_until("the quota is counted", lambda: api_server.request("GET", team).body["status"].get("used"))
        assert submit("--dry-run", "--gpus", "1", "--workers", "4") == 0
    finally:
        api_server.request("DELETE", f"{QUOTAS}/team")
    output = capsys.readouterr().out
    assert "requests.nvidia.com/gpu 2 of 2 left, but the job takes 4" in output
    assert "requests.cpu 50 of 50 left" in output


def test_without_the_right_to_create_config_maps_no_job_is_created(
    submit: Submit,
    folder: Path,
    control_plane: ControlPlane,
    api_server: ApiServer,
    tmp_path_factory: pytest.TempPathFactory,
    capsys: pytest.CaptureFixture[str],
) -> None:
    config = kubeconfig_without_rights(control_plane, api_server, tmp_path_factory.mktemp("guest"))
    rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
    jobs = {"apiGroups": ["railhead.dev"], "resources": ["trainjobs"], "verbs": ["get", "create", "patch"]}
    maps = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]}
    role = {"metadata": {"name": "sender"}, "rules": [jobs]}
    assert api_server.request("POST", f"{rbac}/roles", role).status == 201
    subject = {"kind": "ServiceAccount", "name": "guest", "namespace": "default"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "sender"}
    binding = {"metadata": {"name": "sender"}, "subjects": [subject], "roleRef": reference}
    assert api_server.request("POST", f"{rbac}/rolebindings", binding).status == 201
    try:
        assert submit("--kubeconfig", str(config)) == ExitCode.DENIED
        assert "cannot create the ConfigMap train-code-" in capsys.readouterr().err
        assert not api_server.list(PATH) and not map_names(api_server)
        change = {"rules": [jobs, maps]}
        assert api_server.request("PATCH", f"{rbac}/roles/sender", change, content_type=MERGE_PATCH).status == 200
        assert submit("--kubeconfig", str(config)) == 0
        assert "Quota       not known: cannot list resourcequotas" in capsys.readouterr().out
    finally:
        api_server.request("DELETE", f"{rbac}/rolebindings/sender")
        api_server.request("DELETE", f"{rbac}/roles/sender")
    check_complete(api_server)
