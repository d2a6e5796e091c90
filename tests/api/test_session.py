"""`Client` against a real API server: what it creates, reads, waits for and changes."""

from __future__ import annotations

import gc
import shutil
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from railhead.client.exit_codes import ClientError, ExitCode
from railhead.client.python_api import Client, Job
from railhead.client.run.curves import Curve
from railhead.json_object import Object
from railhead.local.control_plane import ControlPlane
from tests.api.server import MERGE_PATCH, ApiServer
from tests.api.test_client import FAILED, SUSPENDED, report
from tests.api.trainjobs import PATH
from tests.unit.client.run_folder import write_run

SUCCEEDED = [{**FAILED[0], "type": "Complete", "reason": "Succeeded"}]
IMAGE = "registry.example/train:1"


def train_func(config: dict[str, Any]) -> None: ...


@pytest.fixture
def client(control_plane: ControlPlane, api_server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """A client of the API server; no job is left behind."""
    monkeypatch.setattr(train_func, "__module__", "my_train")  # a file of the tests is in a package
    yield Client(kubeconfig=control_plane.kubeconfig)
    gc.collect()
    assert api_server.request("DELETE", PATH).status == 200


def submit(client: Client, name: str = "one", spec: Object | None = None, **fields: Any) -> Job:
    return client.submit(train_func, name=name, image=IMAGE, storage="s3://b/runs", spec=spec, **fields)


def read(server: ApiServer, name: str) -> Object:
    return server.request("GET", f"{PATH}/{name}").body


def test_submit_creates_the_job_of_a_function_once(client: Client, api_server: ApiServer) -> None:
    env = [{"name": "A", "value": "1"}]
    job = submit(client, workers=4, gpus=2, config={"lr": 0.1}, spec={"env": env, "scaling": {"workersPerPod": 2}})
    stored = read(api_server, "one")
    spec = stored["spec"]
    assert (job.name, job.namespace, job.uid) == ("one", "default", stored["metadata"]["uid"])
    assert spec["trainer"]["trainFunc"] == "test_session:train_func"
    assert spec["trainer"]["trainLoopConfig"] == {"lr": 0.1}
    assert "def train_func(config" in spec["source"]["inline"]["test_session.py"]
    assert (spec["scaling"]["numWorkers"], spec["scaling"]["workersPerPod"], spec["env"]) == (4, 2, env)
    assert spec["scaling"]["resourcesPerWorker"]["nvidia.com/gpu"] == 2
    again = submit(client, workers=4, gpus=2, config={"lr": 0.1}, spec={"env": env, "scaling": {"workersPerPod": 2}})
    assert again == job
    with pytest.raises(ClientError, match=r"spec.scaling.numWorkers: 1 instead of 4") as error:
        submit(client)
    assert error.value.code == ExitCode.REFUSED


def test_a_field_that_does_not_exist_is_refused(client: Client) -> None:
    with pytest.raises(ClientError, match=r'unknown field "spec.scaling.workers"; did you mean spec.scaling.numWork'):
        submit(client, spec={"scaling": {"workers": 3}})


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"run": {"storagePath": "runs"}}, "spec.run.storagePath must be an absolute path such as /mnt/runs"),
        (
            {"scaling": {"resourcesPerWorker": {"memory": "4GB"}}},
            "must be a quantity such as 4, 500m, 4G or 4Gi; the un",
        ),
        ({"trainer": {"trainFunc": "train"}}, "spec.trainer.trainFunc must be MODULE:FUNCTION"),
    ],
)
def test_a_value_of_another_form_is_refused_in_words(client: Client, spec: Object, words: str) -> None:
    with pytest.raises(ClientError, match=words) as error:
        submit(client, spec=spec)
    assert "match" not in str(error.value)


def test_a_function_that_cannot_be_sent_creates_nothing(client: Client, api_server: ApiServer) -> None:
    with pytest.raises(ClientError, match="a lambda cannot be sent"):
        client.submit(lambda: None, name="one", image=IMAGE, storage="s3://b/runs")
    assert api_server.list(PATH) == []


def test_get_and_list_find_jobs(client: Client, api_server: ApiServer) -> None:
    jobs = [submit(client, name) for name in ("two", "one")]
    label = {"metadata": {"labels": {"team": "a"}}}
    assert api_server.request("PATCH", f"{PATH}/two", label, content_type=MERGE_PATCH).status == 200
    assert client.get("one") == jobs[1]
    assert client.list() == [jobs[1], jobs[0]]
    assert client.list("team=a") == [jobs[0]]
    with pytest.raises(ClientError, match=r'trainjobs.railhead.dev "three" not found') as error:
        client.get("three")
    assert error.value.code == ExitCode.NOT_FOUND


async def test_status_is_typed_also_inside_a_running_loop(client: Client, api_server: ApiServer) -> None:
    job = submit(client)
    assert job.status.phase == ""
    progress = {"metrics": {"loss": "0.5"}, "percentComplete": 42}
    report(api_server, "one", phase="Running", progress=progress, checkpoint={"uri": "/c", "index": 3})
    status = job.status
    assert (status.phase, status.progress.percent_complete) == ("Running", 42)
    assert status.checkpoint is not None and status.checkpoint.index == 3
    assert job.why()[0].reason


def test_wait_returns_the_status_or_raises_why_it_failed(client: Client, api_server: ApiServer) -> None:
    job = submit(client)
    timer = threading.Timer(0.2, report, (api_server, "one"), {"phase": "Succeeded", "conditions": SUCCEEDED})
    timer.start()
    assert job.wait(timeout=30).phase == "Succeeded"
    timer.join()
    failed = submit(client, "two")
    failure = {"class": "OutOfMemory", "reason": "OOMKilled", "message": "no memory left"}
    report(api_server, "two", phase="Failed", conditions=FAILED, failure=failure)
    with pytest.raises(ClientError, match="two: Failed: OutOfMemory, OOMKilled: no memory left"):
        failed.wait()
    assert failed.wait("failed").phase == "Failed"
    with pytest.raises(ClientError, match=r"three is not running after 0.2 s") as error:
        submit(client, "three").wait("running", timeout=0.2)
    assert error.value.code == ExitCode.TIMED_OUT
    with pytest.raises(ClientError, match="cannot wait for 'done'; use one of finished, "):
        job.wait("done")  # type: ignore[arg-type]


def test_suspend_resume_with_a_change_and_delete(client: Client, api_server: ApiServer) -> None:
    job = submit(client)
    job.suspend()
    assert read(api_server, "one")["spec"]["suspend"] is True
    report(api_server, "one", phase="Suspended", conditions=SUSPENDED)
    assert job.wait("suspended", timeout=5).phase == "Suspended"
    job.resume({"image": "registry.example/train:2"})
    spec = read(api_server, "one")["spec"]
    assert (spec["suspend"], spec["image"]) == (False, "registry.example/train:2")
    job.delete()
    job.delete()
    assert api_server.list(PATH) == []


def test_another_job_of_the_name_is_not_the_job(client: Client, api_server: ApiServer) -> None:
    old = submit(client)
    old.delete()
    submit(client)
    for use in (old.suspend, old.resume, old.wait, old.why, lambda: old.status, lambda: list(old.logs())):
        with pytest.raises(ClientError, match="one was deleted, and another job has its name"):
            use()
    assert not read(api_server, "one")["spec"].get("suspend")


def test_the_runs_files_are_read_after_its_pods_are_gone(
    client: Client, api_server: ApiServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The folder of a run in local mode is on this machine; `open_run` finds the others."""
    job = submit(client, spec={"run": {"name": "the-run", "storagePath": "/runs"}})
    folder = tmp_path / "the-run"
    write_run(folder)
    report(api_server, "one", phase="Succeeded", runURI=str(folder))
    curves = job.metrics()
    loss = curves["loss"]
    assert replace(loss, times=()) == Curve("one", "loss", tuple(1 / n for n in range(1, 9)), tuple(range(1, 9)))
    assert len(loss.times) == len(loss.values)
    assert list(job.metrics("loss")) == ["loss"]
    assert [(each.info.name, each.info.files) for each in job.checkpoints()] == [
        ("checkpoint_1", 1),
        ("checkpoint_2", 0),
    ]
    with pytest.raises(ClientError, match="the files of checkpoint checkpoint_2 are gone"):
        _ = job.checkpoint  # without a best one it is the newest
    best = {"uri": f"{folder}/checkpoint_1", "index": 0}
    report(api_server, "one", phase="Succeeded", runURI=str(folder), bestCheckpoint=best)
    copy = job.checkpoint.download(tmp_path / "copy")
    assert (copy / "model.pt").read_bytes() == b"weights"
    with pytest.raises(ClientError, match="copy is not empty; name another folder"):
        job.checkpoint.download(copy)
    shutil.rmtree(folder / ".railhead" / "metrics")
    assert job.metrics() == {}
    assert "has no reports of one" in caplog.text


def test_logs_without_a_pod_say_so(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    job = submit(client)
    assert list(job.logs()) == []
    assert "has no such pod" in caplog.text


def test_following_ends_with_the_job_and_says_what_it_waits_for(
    client: Client, api_server: ApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    job = submit(client)
    report(api_server, "one", phase="Pending")
    timer = threading.Timer(0.5, report, (api_server, "one"), {"phase": "Succeeded", "conditions": SUCCEEDED})
    timer.start()
    assert list(job.logs(follow=True)) == []
    timer.join()
    assert "one is Pending; waiting for its pods" in caplog.text
