"""A small cluster in memory around the real planner: what a plan wants is applied, pods live as they are told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from railhead.api import names
from railhead.api.spec import TrainJobSpec
from railhead.api.status import parse_status
from railhead.planning.observed import AnnouncedCommit, Observed, Rejection
from railhead.planning.plan import Plan
from railhead.planning.planner import plan
from railhead.planning.pod_view import PodView, Problem
from tests.unit.builders import NOW, ended, make_observed, make_spec


@dataclass
class Simulation:
    """One job and its pods. Each `pass_over` is one look of the operator at what is there."""

    spec: TrainJobSpec = field(default_factory=make_spec)
    now: datetime = NOW
    status: dict[str, Any] = field(default_factory=lambda: {"observedGeneration": -1, "attempt": 0, "round": 0})
    pods: dict[str, PodView] = field(default_factory=dict)
    others: set[str] = field(default_factory=set)
    counts: Counter[str] = field(default_factory=Counter)
    events: list[str] = field(default_factory=list)
    heads: list[str] = field(default_factory=list)
    stuck: set[str] = field(default_factory=set)
    bodies: dict[str, dict[str, Any]] = field(default_factory=dict)
    refuses: Callable[[str, dict[str, Any]], Problem | None] = lambda kind, body: None
    refusal: Rejection | None = None
    announced: AnnouncedCommit | None = None
    last: Plan = field(default_factory=Plan)

    def observe(self) -> Observed:
        pods = self.pods.values()
        refusal = self._known_refusal()
        observed = make_observed(*pods, status=self.status, spec=self.spec, now=self.now, rejection=refusal)
        return replace(observed, announced=self.announced)

    def pass_over(self) -> Plan:
        """Plans and does it, as the executor would."""
        self.last = wanted = plan(self.observe())
        if wanted.status is not None:
            for path, value in wanted.status.tests.items():
                assert not path.startswith("/status/") or self._at(path) == value, (
                    f"the compare on {path} does not hold"
                )
            fields = {**self.status, **wanted.status.fields}
            self.status = {key: value for key, value in fields.items() if value is not None}
            self.counts["status"] += bool(wanted.status.fields)
        for delete in wanted.deletes:
            self._delete(delete.name, delete.uid)
        self._create_all(wanted)
        if wanted.announced is not None:
            self.announced = AnnouncedCommit(wanted.announced, at=self.now)
        self.events += [event.reason for event in wanted.events]
        self.counts["events"] += len(wanted.events)
        return wanted

    def _known_refusal(self) -> Rejection | None:
        """Of the present attempt."""
        return self.refusal if self.refusal and self.refusal.attempt == self.status["attempt"] else None

    def _create_all(self, wanted: Plan) -> None:
        refused = [problem for create in wanted.creates if (problem := self._create(create.kind, dict(create.body)))]
        if refused:
            self.counts["refusals"] += 1
            known = self._known_refusal()
            tries = known.tries + 1 if known else 1
            self.refusal = Rejection(refused[0], self.status["attempt"], tries=tries, at=self.now)
        elif wanted.creates:
            self.refusal = None

    def _at(self, path: str) -> Any:
        found: Any = {"status": self.status}
        for part in path.strip("/").split("/"):
            found = found.get(part)
        return found

    def settle(self, limit: int = 20) -> None:
        """Passes until nothing is wanted any more."""
        for _ in range(limit):
            if self.pass_over().is_empty:
                return
        raise AssertionError(f"does not settle: {self.last}")

    def start_pods(self) -> None:
        for name, pod in list(self.pods.items()):
            if pod.is_live:
                self.pods[name] = replace(pod, phase="Running", is_running=True, node="node-1")

    def report(self, state: str = "RUNNING", *, checkpoint: int | None = None) -> None:
        """The report endpoint's write."""
        attempt = self.status["attempt"]
        self.status["progress"] = {"attempt": attempt, "state": state, "joined": len(self.pods) - 1, "reports": 1}
        if checkpoint is not None:
            self.status["checkpoint"] = {"uri": f"/runs/c{checkpoint}", "index": checkpoint, "attempt": attempt}

    @property
    def head(self) -> PodView:
        return next(p for p in self.pods.values() if p.role == names.HEAD and p.is_live)

    def end_head(self, outcome: str, **changes: Any) -> None:
        head = self.head
        self.pods[head.name] = ended(head, outcome, **changes)

    def lose(self, name: str) -> None:
        """Deleted by somebody, and gone at once."""
        del self.pods[name]

    def later(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def run_until_training(self) -> None:
        self.settle()
        self.start_pods()
        self.settle()
        self.report()
        self.settle()

    @property
    def live_heads(self) -> list[PodView]:
        return [p for p in self.pods.values() if p.role == names.HEAD and p.is_live]

    def check_condition(self, type_: str) -> bool:
        return parse_status(self.status).has_condition(type_)

    def _delete(self, name: str, uid: str) -> None:
        if name in self.pods and self.pods[name].uid == uid:
            self.counts["deletes"] += 1
            if name in self.stuck:  # its node does not answer: nobody says that it has ended
                self.pods[name] = replace(self.pods[name], is_deleting=True, gone_by=self.now)
            else:
                del self.pods[name]

    def _create(self, kind: str, body: dict[str, Any]) -> Problem | None:
        """Why it was refused, when it was."""
        name, labels = body["metadata"]["name"], body["metadata"].get("labels") or {}
        if kind != "Pod":
            if (kind + name) not in self.others:
                self.others.add(kind + name)
                self.counts["others"] += 1
            return None
        if name in self.pods:
            return None
        problem = self.refuses(kind, body)
        if problem is not None:
            return problem
        self.counts["pods"] += 1
        self.bodies[name] = body
        uid = f"{name}#{self.counts['pods']}"
        role = labels[names.LABEL_ROLE]
        self.pods[name] = PodView(
            name,
            uid,
            role,
            int(labels[names.LABEL_ATTEMPT]),
            int(labels.get(names.LABEL_SLOT, -1)),
            int(labels.get(names.LABEL_ROUND, 0)),
            created_at=self.now,
        )
        if role == names.HEAD:
            self.heads.append(name)
        assert len(self.live_heads) <= 1, "two live heads"
        return None
