"""A complete session as users run it: up, used, crashed, interrupted, down; and nothing is left of it.

The tests of `local/supervisor.py`: what it does is to start and end real servers.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

import railhead
from railhead.local.install import Kubectl
from railhead.local.processes import MARKER, Identity, is_alive, marked
from railhead.local.session import FAILED, READY, SUPERVISOR, Session
from tests.e2e.jobs import make_job
from tests.waiting import wait_until

COMPONENTS = {
    SUPERVISOR,
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "node-agent",
    "operator",
}
POD = """
apiVersion: v1
kind: Pod
metadata: {name: sleeper}
spec:
  restartPolicy: Never
  containers: [{name: main, image: none, command: [sleep, "600"]}]
"""
# No node has this resource, so the job waits until it is interrupted.
WAITING_JOB = """
apiVersion: railhead.dev/v1alpha1
kind: TrainJob
metadata: {name: waiting}
spec:
  image: none
  trainer: {framework: Torch, trainFunc: "m:f"}
  source: {inline: {m.py: "def f(): pass"}}
  scaling: {numWorkers: 1, resourcesPerWorker: {cpu: "1", memory: 1Gi, example.com/rare: "1"}}
  run: {storagePath: /tmp/none}
"""
LONG = 300


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    session = Session(tmp_path / "session")
    yield session
    session.down()


def start(*arguments: str, session: Session) -> subprocess.Popen[str]:
    """The command line in its own process, as from a shell."""
    path = str(Path(railhead.__file__).parents[1])
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "railhead.cli", "local", *arguments, "--dir", str(session.folder)],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def call(*arguments: str, session: Session) -> tuple[int, str]:
    process = start(*arguments, session=session)
    out, _ = process.communicate(timeout=LONG)
    return process.returncode, out


def read_until(process: subprocess.Popen[str], text: str) -> str:
    assert process.stdout is not None
    output = ""
    for line in process.stdout:
        output += line
        if text in line:
            return output
    raise AssertionError(f"{text!r} was not printed: {output}")


def wait_ended(identity: Identity) -> None:
    try:
        pidfd = os.pidfd_open(identity.pid)
    except ProcessLookupError:
        return
    try:
        if is_alive(identity):
            assert select.select([pidfd], [], [], 30)[0]
    finally:
        os.close(pidfd)


def assert_nothing_is_left(session: Session) -> None:
    assert marked(MARKER, session.marker, folder=session.temp_folder()) == []


def has_replaced(session: Session, old: Identity) -> Callable[[], bool]:
    return lambda: session.state().processes.get("operator", old) != old


def wait_for_a_pod(session: Session) -> None:
    kubectl = Kubectl(session.kubectl, session.kubeconfig)
    kubectl("apply", "-f", "-", stdin=POD)
    kubectl("wait", "--for=jsonpath={.status.phase}=Running", "pod/sleeper", "--timeout=60s")


def test_a_session_from_up_to_down_with_a_job_that_fails(session: Session, tmp_path: Path) -> None:
    code, out = call("up", "--gpus", "4", session=session)
    assert code == 0, out
    assert f"export KUBECONFIG={session.kubeconfig}" in out
    kubectl = Kubectl(session.kubectl, session.kubeconfig)
    capacity = kubectl("get", "node", "local", "-o", "jsonpath={.status.allocatable.nvidia\\.com/gpu}")
    assert capacity == "4"
    assert set(session.state().processes) == COMPONENTS

    code, out = call("up", session=session)
    assert code == 1
    assert "a session is up" in out
    code, out = call("status", session=session)
    assert code == 0
    assert "ready" in out

    spec = make_job("unwritable", "none", run={"storagePath": "/proc/railhead"})
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(spec))
    code, out = call("run", "-f", str(tmp_path / "job.yaml"), session=session)
    assert code == 1, out
    assert "/proc/railhead cannot be written" in out

    wait_for_a_pod(session)
    temp = session.temp_folder()
    assert temp is not None
    code, out = call("down", session=session)
    assert code == 0, out
    assert_nothing_is_left(session)
    assert not temp.exists()
    assert call("status", session=session)[0] == 1


def test_an_operator_that_dies_is_restarted_and_an_api_server_that_dies_ends_the_session(session: Session) -> None:
    code, out = call("up", session=session)
    assert code == 0, out
    first = session.state().processes["operator"]
    os.kill(first.pid, signal.SIGKILL)
    wait_ended(first)
    wait_until("another operator", has_replaced(session, first), seconds=60)
    assert session.state().phase == READY

    wait_for_a_pod(session)
    processes = session.state().processes
    os.kill(processes["kube-apiserver"].pid, signal.SIGKILL)
    wait_ended(processes[SUPERVISOR])
    state = session.state()
    assert state.phase == FAILED
    assert "kube-apiserver exited with code -9" in state.message
    assert_nothing_is_left(session)


@pytest.mark.slow  # `up` that is killed, below; tests/unit/local has the children that die, and what `down` kills
def test_a_supervisor_that_dies_leaves_nothing(session: Session) -> None:
    code, out = call("up", "--without-operator", session=session)  # with one, the same
    assert code == 0, out
    wait_for_a_pod(session)
    processes = session.state().processes
    assert set(processes) == COMPONENTS - {"operator"}
    os.kill(processes[SUPERVISOR].pid, signal.SIGKILL)
    for identity in processes.values():
        wait_ended(identity)
    assert not session.is_up()
    session.down()
    assert_nothing_is_left(session)


# Each signal once, here and where `run` is interrupted; the other pairs are slow.
@pytest.mark.parametrize(
    ("text", "sig"),
    [
        ("installing", signal.SIGKILL),
        pytest.param("installing", signal.SIGINT, marks=pytest.mark.slow),
        pytest.param("starting the node agent", signal.SIGKILL, marks=pytest.mark.slow),
        pytest.param("starting the node agent", signal.SIGINT, marks=pytest.mark.slow),
        pytest.param("starting etcd", signal.SIGINT, marks=pytest.mark.slow),
        pytest.param("starting etcd", signal.SIGKILL, marks=pytest.mark.slow),
    ],
)
def test_interrupted_up_leaves_nothing(session: Session, text: str, sig: signal.Signals) -> None:
    process = start("up", session=session)
    read_until(process, text)
    supervisor = session.state().processes[SUPERVISOR]
    process.send_signal(sig)
    process.communicate(timeout=LONG)
    if sig == signal.SIGINT:
        assert process.returncode == 130
    else:
        wait_ended(supervisor)  # the kernel signals it
    assert_nothing_is_left(session)


@pytest.mark.parametrize("sig", [signal.SIGINT, pytest.param(signal.SIGKILL, marks=pytest.mark.slow)])
def test_interrupted_run_leaves_nothing(session: Session, tmp_path: Path, sig: signal.Signals) -> None:
    (tmp_path / "job.yaml").write_text(WAITING_JOB)
    process = start("run", "-f", str(tmp_path / "job.yaml"), session=session)
    output = read_until(process, "example.com/rare")
    assert "phase Pending" in output
    supervisor = session.state().processes[SUPERVISOR]
    process.send_signal(sig)
    process.communicate(timeout=LONG)
    if sig == signal.SIGINT:
        assert process.returncode == 130
    else:
        wait_ended(supervisor)  # the kernel signals it
    assert_nothing_is_left(session)
