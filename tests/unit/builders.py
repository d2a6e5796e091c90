"""Values for tests of the pure layers: `make_observed(...)` takes what the test is about, and defaults the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any

from railhead.api import conditions, names
from railhead.api.parsed_spec import parse_spec
from railhead.api.spec import TrainJobSpec
from railhead.api.status import JobStatus, parse_status
from railhead.contract.failure import SUCCEEDED_CODE, FailureClass
from railhead.contract.outcome import Outcome
from railhead.contract.report import CommittedCheckpoint
from railhead.planning.facts.admission import add_queue_obstacle
from railhead.planning.job import Job
from railhead.planning.observed import Observed
from railhead.planning.plan import Plan
from railhead.planning.pod_view import PodView
from railhead.resources.base import JobRef, OperatorSettings
from railhead.resources.mounts import Mounts, build_input, name_mounts

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
UID = "0f1e2d3c-1111-2222-3333-444444444444"
SETTINGS = OperatorSettings(
    report_url="https://reports.test:8443",
    report_ca="CA",
    bundle=b"zip",
    bundle_name="railhead-driver-test",
    token_key=b"key",
)
MOUNTS = Mounts(
    SETTINGS.bundle_name, "digits-0f1e2d-input-f00d", "digits-0f1e2d-auth-cafe", "digits-0f1e2d-source-beef"
)
# Read-only: a test that changed it would change the tests after it.
SPEC: Mapping[str, Any] = MappingProxyType(
    {
        "image": "example/train:1",
        "trainer": {"trainFunc": "train:train_func"},
        "scaling": {"numWorkers": 2},
        "run": {"storagePath": "/runs"},
    }
)


def make_spec(**changes: Any) -> TrainJobSpec:
    """The smallest spec with two workers; keyword arguments replace its top-level fields."""
    return parse_spec({**SPEC, **changes})


def make_mounts(job: JobRef, spec: TrainJobSpec, settings: OperatorSettings = SETTINGS) -> Mounts:
    """What an attempt mounts that begins now."""
    return name_mounts(job, spec, settings, input_name=build_input(job, spec, settings)["metadata"]["name"])


def make_observed(*pods: PodView, status: dict[str, Any] | None = None, **changes: Any) -> Observed:
    """A job named digits with these pods."""
    observed = Observed(
        now=NOW,
        namespace="default",
        name="digits",
        uid=UID,
        generation=1,
        is_deleting=False,
        spec=make_spec(),
        status=parse_status(status) if status is not None else JobStatus(),
        pods=pods,
        settings=SETTINGS,
    )
    return replace(observed, **changes)


def make_job(*pods: PodView, status: dict[str, Any] | None = None, **changes: Any) -> Job:
    """The same as a Job, with its parsed spec."""
    return to_job(make_observed(*pods, status=status, **changes))


def to_job(observed: Observed) -> Job:
    assert isinstance(observed.spec, TrainJobSpec)
    return add_queue_obstacle(observed, observed.spec)


def make_head(attempt: int = 1, **changes: Any) -> PodView:
    """A running head pod."""
    name = names.head_name("digits", UID, attempt)
    view = PodView(name, f"uid-{name}", names.HEAD, attempt, phase="Running", is_running=True, node="node-1")
    return replace(view, **changes)


def make_worker(slot: int, attempt: int = 1, round_: int = 0, **changes: Any) -> PodView:
    """A running worker pod."""
    name = names.worker_name("digits", UID, attempt=attempt, slot=slot, round_=round_)
    view = PodView(
        name, f"uid-{name}", names.WORKER, attempt, slot, round_, phase="Running", is_running=True, node="node-1"
    )
    return replace(view, **changes)


def find_code(outcome: str) -> int:
    """The exit code of a head with this outcome."""
    return SUCCEEDED_CODE if outcome == "Succeeded" else FailureClass(outcome).exit_code


def ended(pod: PodView, outcome: str, message: str = "because", **changes: Any) -> PodView:
    """The pod after its driver has ended with this outcome."""
    code = find_code(outcome)
    newest, best = (CommittedCheckpoint.from_dict(changes.pop(key, None)) for key in ("checkpoint", "best_checkpoint"))
    result = Outcome(
        outcome=outcome, reason=outcome, message=message, checkpoint=newest, best_checkpoint=best
    ).to_json()
    gone = replace(
        pod,
        phase="Succeeded" if code == 0 else "Failed",
        is_running=False,
        exit_code=code,
        message=result,
        finished_at=NOW - timedelta(seconds=1),
    )
    return replace(gone, **changes)


def make_absent(since: str) -> list[dict[str, Any]]:
    """The conditions that are always present, as False."""
    common = {"status": "False", "message": "", "observedGeneration": 1, "lastTransitionTime": since}
    return [{"type": type_, "reason": f"Not{type_}", **common} for type_ in conditions.ALWAYS_PRESENT]


def make_attempt(**changes: Any) -> dict[str, Any]:
    """An entry of status.attempts: the first attempt, which trains."""
    times = {"startTime": "2026-01-01T11:00:00Z", "runningTime": "2026-01-01T11:01:00Z"}
    return {"number": 1, "generation": 1, **times, "class": "", "reason": "", "node": "", "rounds": 0, **changes}


RUNNING_STATUS: dict[str, Any] = {
    "observedGeneration": 1,
    "phase": "Running",
    "attempt": 1,
    "round": 0,
    "startTime": "2026-01-01T11:00:00Z",
    "head": {"pod": names.head_name("digits", UID, 1), "node": "node-1"},
    "workers": {"desired": 2, "ready": 2, "joined": 2},
    "progress": {"attempt": 1, "state": "RUNNING", "reports": 3, "joined": 2},
    "conditions": [
        {
            "type": "Running",
            "status": "True",
            "reason": "Training",
            "message": "Training runs on 2 worker pods (attempt 1)",
            "observedGeneration": 1,
            "lastTransitionTime": "2026-01-01T11:01:00Z",
        },
        *make_absent("2026-01-01T11:00:00Z"),
    ],
    "attempts": [make_attempt()],
}


def is_empty(plan: Plan) -> bool:
    """Whether the plan does nothing; it may still have a `wake_at`."""
    removals = (plan.deletes, plan.removes, plan.forgotten, plan.delete_job)
    return not any((plan.status, plan.last, plan.creates, *removals, plan.events))
