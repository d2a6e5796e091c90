"""What `railhead why` prints in random states of the model is true: each sentence is judged by the facts it asserts."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from railhead.client.explain.causes import read_causes
from tests.model.claims import explain, find_false
from tests.model.queue_schedule import QueueSchedule
from tests.model.schedule import Schedule
from tests.model.world import World
from tests.model.world_schedule import WorldSchedule
from tests.tried import Tried

FEW = 3
MANY = 60
# In place of the schedules' own limits, so that jobs come to their last try, and fail.
LIMITS: tuple[dict[str, Any], ...] = (
    {},
    {"backoffLimit": 1, "noProgressLimit": 1},
    {"backoffLimit": 2, "backoffResetSeconds": 60},
    {"backoffLimit": 1, "failurePolicy": {"rules": [{"action": "Fail", "onClass": ["Preemption", "Startup", "Hang"]}]}},
    {"backoffLimit": 3, "disruptionLimit": 1, "activeDeadlineSeconds": 9000},
)


# Causes that no state of the model has, by what it has no part of. Their sentences are in other tests, as named.
OUTSIDE: dict[str, str] = {
    "the kubelet's own errors, which tests/unit/client/explain/test_why.py makes": """
        ContainerCreating CrashLoopBackOff CreateContainerConfigError CreateContainerError ErrImagePull
        ErrImageNeverPull Evicted FailedAttachVolume FailedCreatePodContainer FailedCreatePodSandBox FailedMapVolume
        FailedMount FailedPrepareDynamicResources ImageInspectError ImagePullBackOff NetworkNotReady
        InvalidImageName PodInitializing RegistryUnavailable RunContainerError OOMKilled""",
    "admission that only real API servers have, judged in tests/unit/planning/facts/test_reasons.py": """
        AdmissionWebhookFailed AdmissionDenied CreateRefused FinalizersForbidden ForeignObject ObjectCountExceeded
        ObjectTooLarge OperatorForbidden PlacementForbidden PodInvalid PodSecurityViolated PriorityClassNotFound
        QuotaMissing QuotaNotCounted ResourceUnspecified RuntimeClassNotFound SchedulerMissing
        SecurityConstraintsViolated ServiceAccountNotFound SourceNotFound""",
    "rare in the schedules, and made by test_quota.py and test_why.py of the unit tests": """
        ExceedsQuota NoCheckpoint""",
    "reasons that Kueue gives and its model does not": """
        AdmissionCheck ClusterQueueStopped LocalQueueStopped DeactivatedDueToMaximumExecutionTimeExceeded
        ExceedsMaxQuota FailedToStart FlavorMissing Inadmissible MaxExecTimeInvalid Misconfigured NoMatchingFlavor
        NoReservation NodeFailures PendingEvaluation PodsReadyTimeout Preempted PriorityClassMissing QueueNameConflict
        TopologyPlacementFailed UnsatisfiedAdmissionChecks WaitingForPodsReady WaitingForPreemptedWorkloads""",
    "warnings of a real driver, which tests/ray has": """
        CheckpointMissing CheckpointNameRepeated CheckpointNotWritten EndNotAnnounced MetricMissing MetricNotFinite
        MetricRule NoSteps RayNewerThanTested RunNameDiffers SnapshotUnreadable StorageNotShared StoragePathDiffers
        RunFinishes StorageUnreachable SucceededNotFinite SlowRank RateFell SlowCheckpoints""",
    "failures of a real driver, whose class the model has without a reason": """
        AcceleratorNotThere CheckpointsLost CollectiveTimedOut CommitNotFound EntrypointNotUsable FrameworkMissing
        GPUFailed HealthReattempt NetworkFailed NodeEvicted
        ProgressDeadlineExceeded RayTooOld ResumeFromNotFound RunOfAnotherJob RunTakenOver
        ScriptFailed SecretNotFound SharedMemoryFull SourceNotFetched StorageRefused TrainFunctionNotReturned
        TrainFunctionRaised TrainingProcessDied""",
    "specs that the schedules do not apply": """
        InvalidSpec ManagedElsewhere CodePending RunInUse SourceHasNoCheckpoint SourceStillRuns RestoredFromAnotherJob
        StartDeadlineExceeded RestartDeadlineExceeded ReportsMissing""",
}
TABLES = ("pods", "queues", "states", "found", "slow", "failures")


@dataclass
class Judge:
    """Judges what is printed at each rest of an operator that has seen all."""

    states: int = 0
    seen: Counter[str] = field(default_factory=Counter)
    false: Counter[str] = field(default_factory=Counter)

    def look(self, world: World) -> None:
        jobs = world.api.objects.of("trainjobs")
        for job in jobs:
            self.states += 1
            facts, findings = explain(world, job)
            for finding in findings:
                self.seen[finding.reason] += 1
                self.false.update(f"{finding.reason}, in {facts.phase}, {each}" for each in find_false(facts, finding))


class JudgedWorld(WorldSchedule):
    """The actors of the world beside a job."""

    judge: Judge

    async def _settle(self) -> None:
        await super()._settle()
        if self.operator is not None:
            self.judge.look(self.world)


class JudgedSchedule(Schedule):
    """Losses, failures, suspensions and faults of one job."""

    judge: Judge

    async def _settle(self, number: int) -> None:
        await super()._settle(number)
        self.judge.look(self.world)


class JudgedQueue(QueueSchedule):
    """The same in a queue of Kueue."""

    judge: Judge

    async def _settle(self, number: int) -> None:
        await super()._settle(number)
        self.judge.look(self.world)


KINDS: tuple[type[JudgedWorld | JudgedSchedule | JudgedQueue], ...] = (JudgedWorld, JudgedSchedule, JudgedQueue)


def judge_states(kind: type[JudgedWorld | JudgedSchedule | JudgedQueue], seeds: range) -> Judge:
    judge = Judge()
    for seed in seeds:
        limits = LIMITS[seed % len(LIMITS)]
        schedule = kind(seed)
        schedule.judge = judge
        if isinstance(schedule, Schedule):
            schedule._spec = {**schedule._spec, **limits}
            # An operator with a wrong clock writes times that compare with no others.
            del schedule._weights["clock"]
        if not limits:
            asyncio.run(schedule.run())
            continue
        with suppress(AssertionError):  # a job that may fail does not reach the end that the schedule wants
            asyncio.run(schedule.run())
    return judge


@pytest.mark.parametrize("kind", KINDS)
def test_every_sentence_is_true_where_it_is_printed(
    kind: type[JudgedWorld | JudgedSchedule | JudgedQueue], tried: Tried, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    judge = judge_states(kind, range(FEW))
    assert not judge.false, judge.false.most_common(5)
    tried(f"states explained in {kind.__name__}", judge.states)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_sentence_is_true_in_thousands_of_states(
    kind: type[JudgedWorld | JudgedSchedule | JudgedQueue], tried: Tried, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    judge = judge_states(kind, range(FEW, FEW + MANY))
    assert not judge.false, judge.false.most_common(5)
    tried(f"states explained in {kind.__name__}", judge.states)


@pytest.mark.slow
def test_every_cause_is_in_a_state_or_has_a_reason_why_not(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    causes = {reason for table in TABLES for reason in read_causes()[table]}
    outside = {reason for reasons in OUTSIDE.values() for reason in reasons.split()}
    assert outside <= causes
    seen = {reason for kind in KINDS for reason in judge_states(kind, range(FEW + MANY)).seen}
    assert causes - outside - seen == set()
