"""SIGKILL of everything a job needs, one at a time and all at once: each job succeeds, and no epoch is lost."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator

import pytest

from tests.e2e.cluster import PATIENCE
from tests.e2e.rig import GCS, Job, Rig, find_first_process, find_program, kill
from tests.waiting import wait_until

pytestmark = pytest.mark.slow
EPOCHS = 5
HELD = 2  # the epoch during the kill
AWAY_SECONDS = 60.0


@pytest.fixture(scope="module")
def rig(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    if request.config.getoption("--kubeconfig"):
        pytest.skip("the components of this cluster must not be killed")
    rig = Rig(tmp_path_factory.mktemp("rig"))
    try:
        rig.start()
        yield rig
    finally:
        rig.stop()


def check(
    rig: Rig,
    job: Job,
    *,
    starts: list[int],
    attempt: int = 1,
    round_: int = 0,
    in_place: int = 0,
    without_progress: int = 0,
) -> None:
    """It succeeds, each epoch is trained and committed once, and the losses are counted."""
    status = job.wait_end()
    report = rig.cluster.tell(job.name)
    assert status["phase"] == "Succeeded", report
    assert job.starts() == starts, report
    assert status["checkpoint"]["index"] == EPOCHS - 1, report
    assert (status["attempt"], status["round"]) == (attempt, round_), report
    restarts, counted = status.get("restarts") or {}, status.get("countedRestarts") or {}
    assert (counted.get("number", 0), restarts.get("withoutProgress", 0)) == (in_place, without_progress), report
    rig.cluster.delete_job(job.name)


def test_a_job_survives_a_killed_worker_process(rig: Rig) -> None:
    """Its pod survives: this is no infrastructure failure."""
    job = rig.apply("process", epochs=EPOCHS, hold=HELD)
    kill(job.wait_held(HELD)[1:])
    job.release(HELD)
    check(rig, job, starts=[0, HELD], in_place=1)


def test_a_job_survives_a_killed_worker_pod(rig: Rig) -> None:
    job = rig.apply("worker", epochs=EPOCHS, hold=HELD)
    job.wait_held(HELD)
    job.kill_pods(job.worker(1))
    job.release(HELD)
    check(rig, job, starts=[0, HELD], round_=1)


def test_a_job_survives_a_head_killed_before_its_gcs_is_up(rig: Rig) -> None:
    job = rig.apply("early", epochs=EPOCHS)
    pid = job.wait_process(job.head())
    assert not find_program(GCS, below=pid)
    job.kill_pods(job.head())
    check(rig, job, starts=[0], attempt=2, without_progress=1)


def test_a_job_survives_a_head_killed_before_the_driver_starts(rig: Rig) -> None:
    """Its GCS is up; the entry point, which would join it next, is paused."""
    job = rig.apply("driverless", epochs=EPOCHS)
    pid = job.wait_process(job.head())
    wait_until("the GCS", lambda: find_program(GCS, below=pid), seconds=PATIENCE, pause=0.01)
    kill([pid], signal.SIGSTOP)
    wait_until("its port", job.is_gcs_up, seconds=PATIENCE)
    assert "the driver has joined Ray" not in rig.cluster.log(job.head())
    job.kill_pods(job.head())
    check(rig, job, starts=[0], attempt=2, without_progress=1)


def test_a_job_survives_a_head_killed_mid_epoch(rig: Rig) -> None:
    job = rig.apply("head", epochs=EPOCHS, hold=HELD)
    job.wait_held(HELD)
    job.wait_in_status(HELD - 1)
    job.kill_pods(job.head())
    job.release(HELD)
    check(rig, job, starts=[0, HELD], attempt=2)


def test_a_job_survives_a_head_killed_after_a_commit_missing_in_the_status(rig: Rig) -> None:
    job = rig.apply("untold", epochs=EPOCHS, hold=HELD)
    job.wait_held(HELD)
    job.wait_in_status(HELD - 1)
    rig.operator.stop()
    job.hold(HELD + 1)
    job.release(HELD)
    job.wait_held(HELD + 1)
    job.kill_pods(job.head())
    job.release(HELD + 1)
    assert rig.cluster.status(job.name)["checkpoint"]["index"] == HELD - 1
    rig.operator.start()
    check(rig, job, starts=[0, HELD + 1], attempt=2)


def test_a_job_survives_a_killed_operator(rig: Rig) -> None:
    job = rig.apply("operator", epochs=EPOCHS, hold=HELD)
    job.wait_held(HELD)
    rig.operator.stop()
    job.release(HELD)
    rig.operator.start()
    check(rig, job, starts=[0])


def test_a_job_survives_a_minute_without_the_api_server(rig: Rig) -> None:
    """Training continues meanwhile."""
    job = rig.apply("serverless", epochs=EPOCHS, hold=HELD)
    job.wait_held(HELD)
    rig.kill_api_server()
    away_until = time.monotonic() + AWAY_SECONDS
    job.hold(HELD + 1)
    job.release(HELD)
    job.wait_held(HELD + 1)
    while time.monotonic() < away_until:
        keep_operator(rig)
        time.sleep(0.2)
    rig.start_api_server()
    job.release(HELD + 1)
    wait_until("an operator", lambda: keep_operator(rig), seconds=PATIENCE)
    check(rig, job, starts=[0])


def test_a_job_survives_all_kills_at_once(rig: Rig) -> None:
    job = rig.apply("everything", epochs=EPOCHS, hold=HELD)
    job.wait_held(HELD)
    job.wait_in_status(HELD - 1)
    rig.operator.stop()
    rig.kill_api_server()
    job.kill_pods(job.head(), job.worker(0), job.worker(1))
    wait_until("no process", lambda: not find_first_process(job.head()))
    job.release(HELD)
    rig.start_api_server()
    rig.operator.start()
    check(rig, job, starts=[0, HELD], attempt=2)


def keep_operator(rig: Rig) -> bool:
    """Restarts it if it has exited, as its Deployment does; returns whether it runs."""
    if rig.operator.has_ended:
        rig.operator.launch()
    return not rig.operator.has_ended
