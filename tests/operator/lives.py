"""Lives of jobs on a real API server, many of them at once, each told as what user, kubelet and driver do.

A life is a generator: it does what is next, and yields for as long as it waits for the
operator. One loop looks at all jobs and pods of the cluster and lets every life go on.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from railhead.api import names
from railhead.contract.checkpoint import Checkpoint
from railhead.contract.failure import FailureClass
from railhead.contract.outcome import SUCCEEDED, Outcome
from tests.operator.proxy import Ledger
from tests.operator.stage import Object, Stage
from tests.waiting import NotInTime

JOB = "life"
REPORT_PAUSE_SECONDS = 1.0
LOOK_PAUSE_SECONDS = 0.05  # the operator needs the processors too
RAISED = Outcome("Application", reason="TrainFunctionRaised", message="ValueError: no rails")
Life = Callable[["Scene"], Iterator[None]]


def checkpoint(index: int) -> Object:
    return {"uri": f"/runs/x/checkpoint_{index}", "index": index, "time": "2026-01-01T00:00:02Z", "metrics": {}}


@dataclass
class Scene:
    """One job in a namespace of its own, as last looked at.

    Attributes:
        interlude: what the first attempt waits for once it trains, before anything happens to it.
        wrong: what must not be, not even for a moment.
    """

    stage: Stage
    ledger: Ledger
    interlude: Callable[[], Iterator[None]] = lambda: iter(())
    job: Object | None = None
    pods: dict[str, Object] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    _reported_at: float = 0.0
    _uid: str = ""

    @property
    def status(self) -> Object:
        return (self.job or {}).get("status") or {}

    def look(self, job: Object | None, pods: list[Object]) -> None:
        """Every pod runs as soon as it is there."""
        self.job, self.pods = job, {p["metadata"]["name"]: p for p in pods}
        self._uid = str(job["metadata"]["uid"]) if job else self._uid
        heads = [name for name, pod in self.pods.items() if name.endswith("-head") and is_live(pod)]
        if len(heads) > 1:
            self.wrong.append(f"two live heads: {heads}")
        for pod in pods:
            if "containerStatuses" not in pod["status"]:
                self.stage.run_pod(pod)

    def head(self, attempt: int) -> Object:
        [head] = [pod for name, pod in self.pods.items() if name.endswith(f"-{attempt}-head")]
        return head

    def worker(self, slot: int) -> Object:
        [worker] = [pod for name, pod in self.pods.items() if f"-w{slot}-" in name]
        return worker

    def is_up(self, attempt: int, *, workers: int = 2) -> bool:
        """The attempt is told of, and all its pods run; nobody else's do."""
        own = [p for p in self.pods.values() if p["metadata"]["labels"][names.LABEL_ATTEMPT] == str(attempt)]
        running = [p for p in own if p["status"].get("phase") == "Running"]
        return self.status.get("attempt") == attempt and len(running) == len(own) == workers + 1

    def until(self, what: Callable[[], Any]) -> Iterator[None]:
        while not what():
            yield

    def train(self, attempt: int) -> Iterator[None]:
        """Until the attempt is up, and has committed a checkpoint that the status knows of."""
        yield from self.until(lambda: self.is_up(attempt))
        token, wanted = self.stage.token_of(self.head(attempt)), {"attempt": attempt, "reports": 1}
        while not wanted.items() <= self.status.get("progress", {}).items():
            self._report(attempt, token)
            yield
        if attempt == 1:
            yield from self.interlude()

    def _report(self, attempt: int, token: str) -> None:
        """A driver says its last word again and again; an operator that is away does not hear it."""
        if time.monotonic() - self._reported_at > REPORT_PAUSE_SECONDS:
            self._reported_at = time.monotonic()
            told = {"reports": 1, "joined": 2, "checkpoint": checkpoint(attempt - 1)}
            try:
                self.stage.report(JOB, token=token, attempt=attempt, **told)
            except OSError:
                pass

    def succeed(self, attempt: int) -> Iterator[None]:
        """The driver's last word, and what the operator makes of it."""
        last = Outcome(SUCCEEDED, checkpoint=Checkpoint(**checkpoint(9)), reports=2)
        self.stage.end_pod(self.head(attempt), code=0, outcome=last)
        yield from self.until(lambda: self.status.get("phase") == "Succeeded" and len(self.pods) == 1)

    def summarize(self) -> Object:
        """What must be the same with and without trouble."""
        tag = names.tag(self._uid)
        granted: Counter[str] = Counter()
        for (method, resource, name), count in self.ledger.granted.items():
            if method in ("POST", "DELETE") and resource != "events":
                granted[f"{method} {resource} {name.replace(tag, 'tag')}"] += count
        status = self.status
        restarts = {key: count for key, count in (status.get("restarts") or {}).items() if count}
        return {
            "granted": dict(granted),
            "pods": sorted((name.replace(tag, "tag"), p["status"]["phase"]) for name, p in self.pods.items()),
            "status": {key: status.get(key) for key in ("phase", "attempt", "round")},
            "restarts": restarts,
            "checkpoint": (status.get("checkpoint") or {}).get("index"),
            "conditions": sorted((c["type"], c["status"], c["reason"]) for c in status.get("conditions") or []),
        }


def is_live(pod: Object) -> bool:
    ended = pod["status"].get("phase") in ("Succeeded", "Failed")
    return not ended and "deletionTimestamp" not in pod["metadata"]


def clean(scene: Scene) -> Iterator[None]:
    scene.stage.apply(JOB)
    yield from scene.train(1)
    yield from scene.succeed(1)


def raises_once(scene: Scene) -> Iterator[None]:
    scene.stage.apply(JOB, backoffLimit=1)
    yield from scene.train(1)
    scene.stage.end_pod(scene.head(1), code=FailureClass("Application").exit_code, outcome=RAISED)
    yield from scene.train(2)
    yield from scene.succeed(2)


def loses_a_worker(scene: Scene) -> Iterator[None]:
    scene.stage.apply(JOB)
    yield from scene.train(1)
    lost = scene.worker(1)
    scene.stage.remove_pod(lost)
    yield from scene.until(lambda: lost["metadata"]["name"] not in scene.pods and scene.is_up(1))
    yield from scene.succeed(1)


def loses_its_head(scene: Scene) -> Iterator[None]:
    scene.stage.apply(JOB)
    yield from scene.train(1)
    scene.stage.remove_pod(scene.head(1))
    yield from scene.train(2)
    yield from scene.succeed(2)


def rests(scene: Scene) -> Iterator[None]:
    scene.stage.apply(JOB)
    yield from scene.train(1)
    scene.stage.change(JOB, suspend=True)
    yield from scene.until(lambda: scene.status.get("phase") == "Suspended")
    scene.stage.change(JOB, suspend=False)
    yield from scene.train(2)
    yield from scene.succeed(2)


def fails(scene: Scene) -> Iterator[None]:
    scene.stage.apply(JOB, backoffLimit=0)
    yield from scene.train(1)
    scene.stage.end_pod(scene.head(1), code=FailureClass("Application").exit_code, outcome=RAISED)
    yield from scene.until(lambda: scene.status.get("phase") == "Failed" and len(scene.pods) == 1)


def is_deleted(scene: Scene) -> Iterator[None]:
    scene.stage.apply(JOB)
    yield from scene.train(1)
    scene.stage.delete(JOB)
    yield from scene.until(lambda: scene.job is None and not scene.pods)


LIVES: tuple[Life, ...] = (clean, raises_once, loses_a_worker, loses_its_head, rests, fails, is_deleted)


def play(scenes: list[tuple[Scene, Life]], *, each_round: Callable[[], None], seconds: float = 120.0) -> None:
    """Until all lives have been lived. `each_round` is called before every look at the cluster."""
    going = {scene.stage.namespace: (scene, life(scene)) for scene, life in scenes}
    server = scenes[0][0].stage.server
    deadline = time.monotonic() + seconds
    while going:
        each_round()
        jobs = {j["metadata"]["namespace"]: j for j in server.list("/apis/railhead.dev/v1alpha1/trainjobs")}
        pods = server.list("/api/v1/pods", labelSelector=names.LABEL_JOB_UID)
        for namespace, (scene, life) in list(going.items()):
            scene.look(jobs.get(namespace), [p for p in pods if p["metadata"]["namespace"] == namespace])
            if next(life, "over") == "over":
                del going[namespace]
        time.sleep(LOOK_PAUSE_SECONDS)
        if time.monotonic() > deadline:
            told = [f"{s.ledger.trouble}: {s.summarize()}" for s, _ in going.values()]
            raise NotInTime(
                f"{len(going)} jobs do not come to their end within {seconds:.0f} s\n" + "\n".join(told[:5])
            )
