"""What each command prints with `-o json`. The schemas in docs/reference/cli-schemas are generated from these types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from railhead.client.cluster.job_rows import JobRow
from railhead.client.cluster.readiness import Check
from railhead.client.explain.past_run import PastRun
from railhead.client.explain.ranks import RankStack
from railhead.client.explain.summary import JobScreen
from railhead.client.explain.timeline import Moment
from railhead.client.explain.why import Finding
from railhead.client.run.checkpoints import CheckpointRow
from railhead.client.run.curves import RankReport
from railhead.client.run.run_list import RunRow


@dataclass(frozen=True)
class JobList:
    """The jobs, by namespace and name."""

    items: tuple[JobRow, ...]


@dataclass(frozen=True)
class Explanation:
    """Why a job does what it does. `notes`: what could not be read, as sentences."""

    findings: tuple[Finding, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Timeline:
    """What happened to a job, in order. `notes`: what could not be read, as sentences."""

    moments: tuple[Moment, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Checks:
    """Whether the cluster is ready."""

    checks: tuple[Check, ...]


@dataclass(frozen=True)
class ReportList:
    """What rank 0 of the jobs has reported, in order. `gaps`: what is missing, as sentences."""

    reports: tuple[RankReport, ...]
    gaps: tuple[str, ...]


@dataclass(frozen=True)
class Checkpoints:
    """The checkpoints of a run, the oldest first."""

    checkpoints: tuple[CheckpointRow, ...]


@dataclass(frozen=True)
class Stacks:
    """The stacks of the ranks, in their order."""

    ranks: tuple[RankStack, ...]


@dataclass(frozen=True)
class PastRuns:
    """The runs of a storage, the one that started last first.

    Attributes:
        details: of the one run that was named; null without a name.
        notes: what could not be read, as sentences.
    """

    runs: tuple[RunRow, ...]
    details: PastRun | None
    notes: tuple[str, ...]


OUTPUTS: Mapping[str, type] = {
    "list": JobList,
    "top": JobList,
    "status": JobScreen,
    "why": Explanation,
    "timeline": Timeline,
    "metrics": ReportList,
    "checkpoints": Checkpoints,
    "runs": PastRuns,
    "doctor": Checks,
    "stacks": Stacks,
}
