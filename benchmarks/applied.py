"""The digits as a TrainJob: from the start of `kubectl apply` until a watch shows Succeeded."""

from __future__ import annotations

import time
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
    kubectl = Kubectl(session.kubectl, session.kubeconfig)
    manifest = session.folder / f"{name}.yaml"
    manifest.write_text(build_manifest(name))
    try:
        began = time.time()
        kubectl("apply", "-f", str(manifest))
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
    finally:
        remove(kubectl, name)


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


def remove(kubectl: Kubectl, name: str) -> None:
    """Deletes the job and its claim, if it has one, and waits until its pods are gone."""
    kubectl("delete", "trainjobs.railhead.dev,pvc", name, "--ignore-not-found", "--wait=true", "--timeout=50s")
    deadline = time.monotonic() + GONE_SECONDS
    while kubectl("get", "pods", "-l", f"railhead.dev/job-name={name}", "-o", "name"):
        if time.monotonic() > deadline:
            raise TimeoutError(f"the pods of {name} still exist")
        time.sleep(0.2)
