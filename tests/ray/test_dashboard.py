"""Ray's dashboard in a real job: who may use it, and that the job does without it."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from railhead.contract import job_input
from railhead.contract.failure import SUCCEEDED_CODE
from railhead.contract.job_input import DASHBOARD_PORT
from railhead.driver.container.pod_processes import list_descendants, read_process_table
from tests.ray.pods import Pods, make_single_job
from tests.strangers import ask_as_stranger, describe, find_listeners, is_root

# What ray[default] has beyond the packages of this environment, which must not have them: with them each pod's agent
# runs servers, which the other tests do without. All of them are pure Python.
PACKAGES = (
    "aiohttp-cors==0.8.1",
    "googleapis-common-protos==1.76.0",
    "opencensus==0.11.4",
    "opencensus-context==0.1.3",
    "opentelemetry-api==1.45.2",
    "opentelemetry-exporter-prometheus==0.66b2",
    "opentelemetry-proto==1.45.2",
    "opentelemetry-sdk==1.45.2",
    "opentelemetry-semantic-conventions==0.66b2",
)
TOKEN = "0123456789abcdef0123456789abcdef"
DASHBOARD = "dashboard/dashboard.py"
PAGE = "GET /"  # without data; it asks for the token
WAITING = """
import os, time, ray.train

def train_func(config):
    ray.train.report({"epoch": 0})
    while not os.path.exists(config["stop"]):
        time.sleep(0.1)
    ray.train.report({"epoch": 1})
"""
# To read, to change, and to run code.
CLOSED = (
    ("GET", "/nodes?view=summary"),
    ("GET", "/api/v0/tasks"),
    ("GET", "/api/jobs/"),
    ("POST", "/api/jobs/"),
    ("GET", "/api/v0/logs"),
    ("GET", "/worker/traceback"),
    ("PUT", "/api/packages/gcs/a.zip"),
    ("POST", "/api/authenticate"),
)


@pytest.fixture(scope="module")
def packages() -> Path:
    """The folder with them, made once."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "railhead" / "ray-default"
    uv = str(Path(sys.executable).with_name("uv"))
    install = [uv, "pip", "install", "--quiet", "--no-deps", "--target", str(cache), *PACKAGES]
    subprocess.run(install, check=True)
    return cache


def ask(address: str, path: str, token: str = "", *, method: str = "GET") -> tuple[int, str]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    with closing(http.client.HTTPConnection(address, DASHBOARD_PORT, timeout=10)) as connection:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(errors="replace")


def has_tasks(address: str) -> bool:
    status, text = ask(address, "/api/v0/tasks", TOKEN)
    return status == 200 and "RayTrainWorker" in text


def find_dashboard(pods: Pods) -> list[int]:
    """Its processes, the first one before those that it has started."""
    processes = read_process_table()
    for pid in list_descendants(pods.pids["head"], processes):
        if DASHBOARD in Path(f"/proc/{pid}/cmdline").read_text(errors="replace"):
            return [pid, *list_descendants(pid, processes)]
    raise AssertionError("the head pod has no dashboard")


@pytest.mark.slow
def test_the_dashboard_asks_for_the_token_and_a_job_survives_its_end(tmp_path: Path, packages: Path) -> None:
    stop = tmp_path / "stop"
    job = make_single_job(train_loop_config={"stop": str(stop)}, has_dashboard=True)
    with Pods(tmp_path, job, source={"user.py": WAITING}) as pods:
        pods.start(workers=1, env={"PYTHONPATH": str(packages)})
        pods.wait_until(lambda: f"{job_input.DASHBOARD} runs" in pods.read_log())
        head = pods.addresses["head"]
        for method, path in CLOSED:
            assert ask(head, path, method=method)[0] == 401, path
            assert ask(head, path, "of-another-job", method=method)[0] == 403, path
        status, text = ask(head, "/nodes?view=summary", TOKEN)
        assert status == 200 and len(json.loads(text)["data"]["summary"]) == 2
        pods.wait_until(lambda: has_tasks(head))
        [main, *others] = find_dashboard(pods)
        listeners = [each for each in find_listeners([main, *others]) if each.kind != "unix" or is_root()]
        assert [each.port for each in listeners if each.kind != "unix"] == [DASHBOARD_PORT]
        for each in listeners:
            answers = ask_as_stranger(each)
            answered = {answer.question for answer in answers if answer.is_answered}
            assert answered <= {PAGE}, describe(each, answers)
        os.kill(main, signal.SIGKILL)
        pods.wait_until(lambda: f"{job_input.DASHBOARD} was killed by SIGKILL" in pods.read_log())
        stop.touch()
        assert pods.wait_ended() == SUCCEEDED_CODE, pods.read_log()
        assert pods.read_outcome().metrics == {"epoch": "1"}


@pytest.mark.slow
def test_a_job_whose_image_lacks_the_dashboard_says_so_and_trains(tmp_path: Path) -> None:
    stop = tmp_path / "stop"
    stop.touch()
    job = make_single_job(train_loop_config={"stop": str(stop)}, has_dashboard=True)
    with Pods(tmp_path, job, source={"user.py": WAITING}) as pods:
        pods.start(workers=1)
        assert pods.wait_ended() == SUCCEEDED_CODE, pods.read_log()
        log = pods.read_log()
    assert f"{job_input.DASHBOARD} does not run: spec.image lacks packages that it needs (No module named" in log
    assert "install ray[default] in the image, or remove spec.ray.dashboard" in log
