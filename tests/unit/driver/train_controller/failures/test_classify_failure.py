"""Classification and retry: the class of a failure, and whether the group restarts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railhead.driver.messages.rank_errors import RankErrorKind
from railhead.driver.train_controller.failures import classify_failure as classify_failure_module
from railhead.driver.train_controller.failures.classify_failure import (
    FailureFacts,
    FailureOrigin,
    RankError,
    RestartHistory,
    classify_failure,
    decide_retry,
)

RAISED = RankError(1, RankErrorKind.RAISED, "ValueError: no", age=2.0)
FOLLOWED = RankError(0, RankErrorKind.RAISED, "RuntimeError: connection closed by peer", age=1.5)
DIED = RankError(1, RankErrorKind.DIED, "the actor died")
UNUSABLE = RankError(0, RankErrorKind.UNUSABLE, "ModuleNotFoundError: No module named 'absent'", age=1.0)
MISSING = RankError(-1, RankErrorKind.MISSING, "trainer.framework: no")
KILLED = RankError(2, RankErrorKind.KILLED_FOR_MEMORY, "running low on memory")
PREEMPTED = RankError(0, RankErrorKind.PREEMPTED, "preempted")

STORAGE = RankError(0, RankErrorKind.STORAGE, "OSError: AWS Error SLOW_DOWN", age=1.0)
RULED_AGAIN, RULED_OUT = (
    RankError(-1, kind, "rule r") for kind in (RankErrorKind.RULED_AGAIN, RankErrorKind.RULED_OUT)
)
ABANDONED = RankError(0, RankErrorKind.ABANDONED, "ray.exceptions.ActorDiedError", age=1.0)


def facts(
    *errors: RankError, lost: tuple[str, ...] = (), source: FailureOrigin = FailureOrigin.WORKERS, text: str = ""
) -> FailureFacts:
    return FailureFacts(source, errors, lost, text)


@pytest.mark.parametrize(
    ("given_facts", "failure_class", "reason"),
    [
        (facts(RAISED), "Application", "TrainFunctionRaised"),
        (facts(RAISED, FOLLOWED, lost=("10.0.0.2",)), "Infrastructure", "NodeLost"),
        (facts(DIED, FOLLOWED), "Application", "TrainingProcessDied"),
        (facts(DIED, lost=("10.0.0.2",)), "Infrastructure", "NodeLost"),
        (facts(KILLED, FOLLOWED), "OutOfMemory", "OutOfMemory"),
        (facts(UNUSABLE, DIED), "Configuration", "EntrypointNotUsable"),
        (facts(MISSING), "Configuration", "FrameworkMissing"),
        (facts(PREEMPTED, RAISED), "Infrastructure", "NodeDraining"),
        (facts(STORAGE, FOLLOWED), "Infrastructure", "CheckpointNotWritten"),
        (facts(ABANDONED, RAISED), "Infrastructure", "RayActorLost"),
        (facts(ABANDONED, RAISED, lost=("10.0.0.2",)), "Infrastructure", "NodeLost"),
        (facts(source=FailureOrigin.STARTUP, text="no resources"), "Infrastructure", "WorkerGroupNotStarted"),
        (facts(source=FailureOrigin.CONTROLLER, text="lost"), "Infrastructure", "RayTrainFailed"),
        (facts(text="nccl without a GPU"), "Application", "TrainingFailed"),
        (facts(RankError(-1, RankErrorKind.STUCK, "training reported nothing")), "Hang", "ProgressDeadlineExceeded"),
        (facts(RULED_AGAIN, RAISED), "Application", "MetricRule"),
        (facts(RULED_OUT, DIED), "MetricRule", "MetricRule"),
        (facts(RULED_OUT, lost=("10.0.0.2",)), "Infrastructure", "NodeLost"),
    ],
)
def test_class_and_reason(given_facts: FailureFacts, failure_class: str, reason: str) -> None:
    found = classify_failure(given_facts)
    assert (found.class_, found.reason) == (failure_class, reason)


def test_message_names_the_earliest_error_and_the_other_failed_ranks() -> None:
    message = classify_failure(facts(FOLLOWED, RAISED)).message
    assert message == "rank 1: ValueError: no; also failed: rank 0"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (RankError(4, RankErrorKind.UNANSWERED, "Watchdog", pod="w4"), "rank 4: Watchdog"),
        (RankError(5, RankErrorKind.SIGNALLED, "dump signal", pod="w5"), "rank 5: dump signal"),
        (RankError(6, RankErrorKind.STUCK, "training reported nothing", pod="w6"), "training reported nothing"),
    ],
)
def test_a_hang_names_whom_the_collectives_show(error: RankError, text: str) -> None:
    difference = "rank 1 never entered ALLREDUCE #3 of default_pg, in which rank 0 waits"
    found = classify_failure(replace(facts(error), difference=difference, odd_pod="w1"))
    assert (found.class_, found.message, found.suspect_pod) == ("Hang", f"{difference}: {text}", "w1")
    found = classify_failure(replace(facts(error), difference=difference))
    assert found.suspect_pod == ("w6" if error.kind == RankErrorKind.STUCK else "")
    found = classify_failure(replace(facts(error, RAISED), difference=difference, odd_pod="w1"))
    assert "never entered" not in found.message or error.kind == RankErrorKind.RAISED


STUCK = RankError(-1, RankErrorKind.STUCK, "training reported nothing for 600 s")
BROKEN = RankError(3, RankErrorKind.GPU, "CUDA error: uncorrectable ECC error encountered", pod="w3")
GPU = RankError(3, RankErrorKind.GPU, "CUDA error: uncorrectable ECC error encountered")
LIMIT = classify_failure_module.UNEXPLAINED_LIMIT


@pytest.mark.parametrize(
    ("given_facts", "history", "is_retry"),
    [
        (facts(RAISED), RestartHistory(allowed=3), True),
        (facts(KILLED), RestartHistory(allowed=3), True),
        (facts(RAISED), RestartHistory(allowed=3, charged=2), True),
        (facts(RAISED), RestartHistory(allowed=3, charged=3), False),
        (facts(RAISED), RestartHistory(allowed=0), False),
        (facts(RAISED), RestartHistory(allowed=3, same=classify_failure_module.SAME_LIMIT), False),
        (facts(RAISED), RestartHistory(), False),  # the operator has not sent the remaining budget yet
        (facts(RAISED), RestartHistory(max_failures=0, allowed=3), False),
        (facts(RAISED), RestartHistory(max_failures=1, allowed=3), True),
        (facts(RAISED), RestartHistory(max_failures=1, allowed=3, charged=1), False),
        (facts(RAISED), RestartHistory(max_failures=5, allowed=3, charged=3), False),
        (facts(RAISED), RestartHistory(max_failures=5, allowed=5, charged=4, same=5), True),
        (facts(RAISED), RestartHistory(max_failures=1), True),
        (facts(RAISED), RestartHistory(max_failures=-1, charged=99), True),
        (facts(RAISED), RestartHistory(max_failures=-1, charged=3, allowed=3), False),
        (facts(UNUSABLE), RestartHistory(max_failures=-1, allowed=3), False),
        (facts(RULED_AGAIN), RestartHistory(allowed=1), True),
        (facts(RULED_AGAIN), RestartHistory(allowed=1, charged=1), False),
        (facts(RULED_OUT), RestartHistory(max_failures=-1, allowed=3), False),
        (facts(MISSING), RestartHistory(max_failures=-1, allowed=3), False),
        (facts(DIED, lost=("n",)), RestartHistory(), True),
        (facts(RAISED, lost=("n",)), RestartHistory(same=7), True),
        (facts(STUCK), RestartHistory(allowed=1), True),
        (
            facts(STUCK),
            RestartHistory(allowed=0),
            False,
        ),  # the budget is spent, or the operator applies a failurePolicy
        (facts(STUCK), RestartHistory(allowed=9, same=2), False),
        (facts(STUCK), RestartHistory(max_failures=9, same=2), False),
        (facts(STUCK), RestartHistory(max_failures=0, allowed=9), False),
        (facts(GPU), RestartHistory(allowed=1), True),
        (facts(GPU), RestartHistory(allowed=1, same=2), False),  # of a pod that is not known, and so not replaced
        (facts(BROKEN), RestartHistory(allowed=1, same=7, unexplained=LIMIT), True),  # each in another pod
        (facts(BROKEN), RestartHistory(allowed=1, same=7, unexplained=LIMIT + 1), False),
        (facts(BROKEN), RestartHistory(allowed=0), False),
        (facts(BROKEN), RestartHistory(max_failures=0, allowed=3), False),
        (facts(BROKEN, source=FailureOrigin.STARTUP), RestartHistory(allowed=1, same=2), False),
        (facts(source=FailureOrigin.STARTUP), RestartHistory(unexplained=LIMIT), True),
        (facts(source=FailureOrigin.STARTUP), RestartHistory(unexplained=LIMIT + 1), False),
        (facts(source=FailureOrigin.STARTUP, lost=("n",)), RestartHistory(unexplained=LIMIT + 1), True),
        (facts(ABANDONED), RestartHistory(unexplained=LIMIT), True),
        (facts(ABANDONED), RestartHistory(unexplained=LIMIT + 1), False),
        (facts(STORAGE), RestartHistory(unexplained=LIMIT + 1), False),
        (facts(PREEMPTED), RestartHistory(unexplained=LIMIT + 1), True),
        (facts(source=FailureOrigin.CONTROLLER), RestartHistory(max_failures=-1, allowed=3), False),
    ],
)
def test_retry(given_facts: FailureFacts, history: RestartHistory, is_retry: bool) -> None:
    assert decide_retry(given_facts, classify_failure(given_facts), history) is is_retry


KINDS = [RAISED.kind, UNUSABLE.kind, MISSING.kind, DIED.kind, KILLED.kind, PREEMPTED.kind, ABANDONED.kind, STORAGE.kind]
ERRORS = st.builds(
    RankError,
    rank=st.integers(-1, 9),
    kind=st.sampled_from(KINDS),
    text=st.text(max_size=20),
    age=st.none() | st.floats(0, 1e9),
)


@given(
    st.builds(
        FailureFacts,
        source=st.sampled_from([FailureOrigin.WORKERS, FailureOrigin.STARTUP, FailureOrigin.CONTROLLER]),
        errors=st.lists(ERRORS, max_size=5).map(tuple),
        lost_nodes=st.lists(st.text(max_size=5), max_size=3).map(tuple),
        text=st.text(max_size=20),
    ),
    st.builds(
        RestartHistory,
        unexplained=st.integers(0, 20),
        same=st.integers(1, 9),
        charged=st.integers(0, 9),
        allowed=st.none() | st.integers(0, 9),
        max_failures=st.none() | st.integers(-1, 5),
    ),
)
def test_every_failure_has_a_class_and_lost_nodes_are_never_charged(
    any_facts: FailureFacts, history: RestartHistory
) -> None:
    found = classify_failure(any_facts)
    assert found.class_.policy.exit_code
    is_retry = decide_retry(any_facts, found, history)
    if any_facts.lost_nodes:
        assert found.class_ == "Infrastructure"
        if any_facts.source == FailureOrigin.WORKERS:
            assert is_retry
