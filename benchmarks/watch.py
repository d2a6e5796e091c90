"""Watches a cluster's jobs and pods from a thread and records when it saw what: what `kubectl get -w` would show."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from railhead.api import names
from railhead.kube.bodies import keep_all
from railhead.kube.client import Scope, connect
from railhead.kube.informer import Informer
from railhead.kube.kinds import POD, TRAIN_JOB

Object = dict[str, Any]
SYNC_SECONDS = 30.0


@dataclass(frozen=True)
class Sight:
    """One object in one phase, as first seen; `pod` is empty for the job itself."""

    time: float  # since the epoch
    job: str
    pod: str
    phase: str
    object: Object


class Watch:
    """Use as a context manager; the watches are running when it is entered."""

    def __init__(self, kubeconfig: str) -> None:
        self._kubeconfig = kubeconfig
        self._changed = threading.Condition()
        self._sights: list[Sight] = []
        self._checkpoints: list[tuple[str, str, float]] = []
        self._stop: Callable[[], object] = lambda: None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="watch", daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        if not self._ready.wait(SYNC_SECONDS):
            raise TimeoutError(f"the watches did not start within {SYNC_SECONDS:.0f} s")
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()
        self._thread.join(5)

    def wait_for(self, job: str, *phases: str, seconds: float) -> Sight:
        """The job in one of these phases. Raises TimeoutError."""

        def find() -> Sight | None:
            return next((s for s in self._sights if s.job == job and not s.pod and s.phase in phases), None)

        with self._changed:
            found = self._changed.wait_for(find, seconds)
            if found is None:
                raise TimeoutError(f"{job} was not {' or '.join(phases)} within {seconds:.0f} s")
            return found

    def sights(self, job: str) -> list[Sight]:
        """All of one job and its pods, in order."""
        with self._changed:
            return [sight for sight in self._sights if sight.job == job]

    def checkpoints(self, job: str) -> list[tuple[str, float]]:
        """Each URI that the status has shown, and since when."""
        with self._changed:
            return [(uri, at) for name, uri, at in self._checkpoints if name == job]

    async def _run(self) -> None:
        async with connect(self._kubeconfig) as client:
            informers = [
                Informer(client, Scope(TRAIN_JOB, "default"), slim=keep_all, on_change=self._see_job),
                Informer(client, Scope(POD, "default"), slim=keep_all, on_change=self._see_pod),
            ]
            tasks = [asyncio.create_task(informer.run()) for informer in informers]
            both = asyncio.gather(*tasks)
            loop = asyncio.get_running_loop()
            self._stop = lambda: loop.call_soon_threadsafe(both.cancel)
            for informer in informers:
                await informer.answered.wait()
            self._ready.set()
            try:
                await both
            except asyncio.CancelledError:
                pass

    def _see_job(self, old: Object | None, new: Object | None) -> None:
        name = (new or {}).get("metadata", {}).get("name", "")
        uri = _checkpoint(new)
        if uri and uri != _checkpoint(old):
            with self._changed:
                self._checkpoints.append((name, uri, time.time()))
        self._see(old, new, job=name, pod="")

    def _see_pod(self, old: Object | None, new: Object | None) -> None:
        metadata = (new or {}).get("metadata", {})
        self._see(old, new, job=metadata.get("labels", {}).get(names.LABEL_JOB_NAME, ""), pod=metadata.get("name", ""))

    def _see(self, old: Object | None, new: Object | None, *, job: str, pod: str) -> None:
        if new is None or (old is not None and _phase(old) == _phase(new)):
            return
        with self._changed:
            self._sights.append(Sight(time.time(), job, pod, _phase(new), new))
            self._changed.notify_all()


def _checkpoint(obj: Object | None) -> str:
    status = (obj or {}).get("status") or {}
    return str((status.get("checkpoint") or {}).get("uri") or "")


def _phase(obj: Object) -> str:
    return str((obj.get("status") or {}).get("phase") or "")
