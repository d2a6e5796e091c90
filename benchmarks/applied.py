"""A TrainJob that is applied and removed again; and the digits as one, from `kubectl apply` to Succeeded."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.example import build_manifest
from benchmarks.milestones import CONTAINERS, DRIVER_END, PODS, STORED, SUCCEEDED, parse_time, read_milestones
from benchmarks.run import LIMIT_SECONDS, Run, RunFailed
from benchmarks.watch import Sight, Watch
from railhead.local.install import Kubectl
from railhead.local.session import Session

GONE_SECONDS = 60.0


def run_applied(session: Session, watch: Watch, *, name: str) -> Run:
    """Raises RunFailed, or TimeoutError. The job and its pods are gone afterwards."""
    manifest = build_manifest(name)
    began = time.time()
    with applied_manifest(session, name, manifest) as kubectl:
        end = watch.wait_for(name, "Succeeded", "Failed", seconds=LIMIT_SECONDS)
        status = end.object["status"]
        if end.phase != "Succeeded":
            raise RunFailed(f"{name} failed: {status.get('failure')}")
        times = {
            **_read_sights(watch.sights(name)),
            **read_milestones(
                _find_ray_logs(session),
                driver_log=kubectl("logs", status["head"]["pod"]),
                run_folder=Path(status["runURI"]),
            ),
        }
        accuracy = float(status["progress"]["metrics"]["accuracy"])
        lags = tuple(at - parse_time(Path(uri).name) for uri, at in watch.checkpoints(name))
        return Run(end.time - began, {mark: at - began for mark, at in times.items()}, accuracy, lags)


def _read_sights(sights: list[Sight]) -> dict[str, float]:
    head = [s for s in sights if s.pod.endswith("-head")]
    return {
        STORED: sights[0].time,
        PODS: max(s.time for s in sights if s.pod and s.phase == "Pending"),
        CONTAINERS: max(s.time for s in sights if s.pod and s.phase == "Running"),
        DRIVER_END: next(s.time for s in head if s.phase == "Succeeded"),
        SUCCEEDED: next(s.time for s in sights if not s.pod and s.phase == "Succeeded"),
    }


def _find_ray_logs(session: Session) -> Path:
    """Those of the only head on the node: the pods of earlier rounds are gone, along with their folders."""
    temp = session.temp_folder()
    assert temp is not None
    [gcs] = temp.glob("*/v*/session_2*/logs/gcs_server.out")
    return gcs.parent


@contextmanager
def applied_manifest(session: Session, name: str, manifest: str) -> Iterator[Kubectl]:
    """Applies the TrainJob of this name, and its claim if it has one; both and the job's pods are gone afterwards."""
    kubectl = Kubectl(session.kubectl, session.kubeconfig)
    try:
        kubectl("apply", "-f", "-", stdin=manifest)
        yield kubectl
    finally:
        _remove(kubectl, name)


def _remove(kubectl: Kubectl, name: str) -> None:
    kubectl("delete", "trainjobs.railhead.dev,pvc", name, "--ignore-not-found", "--wait=true", "--timeout=50s")
    deadline = time.monotonic() + GONE_SECONDS
    while kubectl("get", "pods", "-l", f"railhead.dev/job-name={name}", "-o", "name"):
        if time.monotonic() > deadline:
            raise TimeoutError(f"the pods of {name} still exist")
        time.sleep(0.2)
