"""The table of evidence: what each text means, for one, 5, 64 and 512 ranks, and who pays for it.

A wrong row costs users: an error of their own that counts as broken hardware is tried again in vain, and broken
hardware that counts as theirs fails the job after `backoffLimit` and sends them looking for a bug.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import lru_cache

import pytest
from ray.exceptions import RayTaskError
from ray.train.v2.api.exceptions import ControllerError, WorkerGroupError

from railhead.contract.failure import Failure, Payer
from railhead.contract.outcome import MESSAGE_CHARS
from railhead.driver.messages.attempt_errors import TrainingError
from railhead.driver.messages.rank_errors import RankErrorKind
from railhead.driver.rank import failure_words
from railhead.driver.rank.pod_report import PodReport
from railhead.driver.train_controller.failures import evidence, failure_policy, ray_exceptions
from railhead.driver.train_controller.failures.classify_failure import (
    FailureFacts,
    FailureOrigin,
    RankError,
    classify_failure,
)
from railhead.driver.train_controller.worker_group import Group
from tests.unit.driver.evidence import texts_of_errors as raised
from tests.unit.driver.evidence import texts_of_processes as died
from tests.unit.driver.processes import Process

SIZES = (1, 5, 64, 512)
PER_POD = 8
# Who pays: these are the counters of status.restarts.
USER, CLUSTER = Payer.APPLICATION, Payer.INFRASTRUCTURE
DEAD = "ActorDiedError: The actor died unexpectedly before finishing this task."


@dataclass(frozen=True)
class Row:
    """One rank has `text`, all others have `others`; None = its node did not answer.

    `suspect`: whether that rank's pod is named, also among many; `words`: what the message has.
    """

    name: str
    text: str
    others: str | None
    reason: str
    payer: Payer
    suspect: bool
    words: str
    has_trained: bool = True


HANG, GPU, LOST, NETWORK = "Hang/CollectiveTimedOut", "Hardware/GPUFailed", "Hardware/GPULost", "Hardware/NetworkFailed"
CRASH, ERROR = "Application/TrainingProcessDied", "Application/TrainFunctionRaised"
SHM_FULL = "Application/SharedMemoryFull"
WATCHDOG = "Watchdog caught collective operation timeout: WorkNCCL(SeqNum="
DIED = (
    # All watchdogs fire within a second, and their ranks are those that wait for the one that is stuck.
    Row("timeout, torch 2.1", died.TIMEOUT_2_1, died.TIMEOUT_2_1, HANG, CLUSTER, False, WATCHDOG),
    Row("timeout, torch 2.3", died.TIMEOUT_2_3, died.TIMEOUT_2_3, HANG, CLUSTER, False, WATCHDOG),
    Row("timeout, torch 2.4", died.TIMEOUT_2_4, died.TIMEOUT_2_4, HANG, CLUSTER, False, WATCHDOG),
    Row("timeout, torch 2.5", died.TIMEOUT_2_5, died.TIMEOUT_2_5, HANG, CLUSTER, False, WATCHDOG),
    Row("timeout, torch 2.6", died.TIMEOUT_2_6, died.TIMEOUT_2_6, HANG, CLUSTER, False, WATCHDOG),
    Row("timeout, one node answers", died.TIMEOUT_2_5, None, HANG, CLUSTER, False, WATCHDOG),
    Row("timeout, others are silent", died.TIMEOUT_2_5, died.KILLED, HANG, CLUSTER, False, WATCHDOG),
    Row("timeout, peers signalled", died.TIMEOUT_2_6, died.SIGNALLED, HANG, CLUSTER, False, WATCHDOG),
    Row("all signalled", died.SIGNALLED, died.SIGNALLED, HANG, CLUSTER, False, "dump signal"),
    Row("ECC, peers signalled", died.ECC, died.SIGNALLED, GPU, CLUSTER, True, "uncorrectable ECC error"),
    Row("network, peers signalled", died.REMOTE, died.SIGNALLED, NETWORK, CLUSTER, True, "ncclRemoteError"),
    Row("SIGKILL, peers signalled", died.KILLED, died.SIGNALLED, CRASH, USER, True, DEAD),
    # A process that aborts after a timeout of minutes is the cause of what its peers say of the network.
    Row("watchdog stuck", died.WATCHDOG_STUCK, died.REMOTE, HANG, CLUSTER, False, "watchdog got stuck"),
    Row("ECC, peers follow", died.ECC, died.REMOTE, GPU, CLUSTER, True, "uncorrectable ECC error"),
    Row("ECC, peers are silent", died.ECC, died.KILLED, GPU, CLUSTER, True, "uncorrectable ECC error"),
    Row("ECC, peers not asked", died.ECC, None, GPU, CLUSTER, True, "uncorrectable ECC error"),
    Row("ECC, peers crash", died.ECC, died.SEGMENTATION_FAULT, GPU, CLUSTER, True, "uncorrectable ECC"),
    Row("NVLink", died.NVLINK, died.REMOTE, GPU, CLUSTER, True, "uncorrectable NVLink error"),
    Row("Xid", died.UNKNOWN_ERROR, died.REMOTE, LOST, CLUSTER, True, "CUDA error: unknown error"),
    # On a node that has never trained it is more likely to be the image or a variable.
    Row("unknown error at first", died.UNKNOWN_ERROR, died.REMOTE, CRASH, USER, True, "", False),
    Row("network", died.REMOTE, died.REMOTE, NETWORK, CLUSTER, False, "Got completion from peer"),
    Row("network, as internal", died.REMOTE_AS_INTERNAL, died.REMOTE, NETWORK, CLUSTER, False, "NCCL error"),
    Row("network, some not asked", died.REMOTE, None, NETWORK, CLUSTER, True, "ncclRemoteError"),
    # A process that was killed is the cause of what its peers say of the network.
    Row("SIGKILL, peers follow", died.KILLED, died.REMOTE, CRASH, USER, True, DEAD),
    Row("SIGSEGV, peers follow", died.SEGMENTATION_FAULT, died.REMOTE, CRASH, USER, True, "Segm"),
    Row("SIGSEGV of all", died.SEGMENTATION_FAULT, died.SEGMENTATION_FAULT, CRASH, USER, True, ""),
    Row("SIGSEGV in a hang", died.SEGMENTATION_FAULT, died.TIMEOUT_2_5, CRASH, USER, True, ""),
    Row("bug in a kernel", died.ILLEGAL_ACCESS, died.REMOTE, CRASH, USER, True, "illegal memory"),
    Row("SIGBUS, peers follow", died.BUS_ERROR, died.REMOTE, "Hardware/BusError", CLUSTER, True, "Bus error"),
)
SHM = "raise spec.worker.sharedMemory"
RAISED = (
    Row("NCCL, /dev/shm full", raised.SHM_FULL, raised.REMOTE, SHM_FULL, USER, True, SHM),
    Row("NCCL before 2.20", raised.SHM_FULL_OLD, raised.REMOTE, SHM_FULL, USER, True, SHM),
    Row("DataLoader", raised.LOADER_OUT_OF_SHM, raised.GLOO_CLOSED, SHM_FULL, USER, True, SHM),
    Row("tensor", raised.SHM_NOT_ALLOCATED, raised.GLOO_CLOSED, SHM_FULL, USER, True, SHM),
    Row("ECC", raised.ECC, raised.REMOTE, GPU, CLUSTER, True, "uncorrectable ECC error"),
    Row("Xid", raised.UNKNOWN_ERROR, raised.REMOTE, LOST, CLUSTER, True, "unknown error"),
    Row("no GPUs", raised.NO_GPUS, raised.REMOTE, LOST, CLUSTER, True, "No CUDA GPUs"),
    Row("no device", raised.NO_DEVICE, raised.REMOTE, LOST, CLUSTER, True, "no CUDA-capable"),
    Row("no GPUs at first", raised.NO_GPUS, raised.REMOTE, ERROR, USER, True, "No CUDA", False),
    Row("network", raised.REMOTE, raised.REMOTE, NETWORK, CLUSTER, False, "ncclRemoteError"),
    Row("clients", raised.CLIENTS, raised.CONNECT, NETWORK, CLUSTER, False, "imed out"),
    Row("connect", raised.CONNECT, raised.CONNECT, NETWORK, CLUSTER, False, "client socket has timed out"),
    Row("store wait", raised.STORE_WAIT, raised.STORE_WAIT, NETWORK, CLUSTER, False, "wait timeout"),
    Row("store gone", raised.STORE_GONE, raised.STORE_GONE, NETWORK, CLUSTER, False, "Failed to recv"),
    Row("gloo", raised.GLOO_CLOSED, raised.GLOO_CLOSED, NETWORK, CLUSTER, False, "closed by peer"),
    Row("old socket", raised.SOCKET_TIMEOUT_OLD, raised.SOCKET_TIMEOUT, NETWORK, CLUSTER, False, "Timeout"),
    Row("gloo timeout", raised.GLOO_TIMEOUT, raised.GLOO_TIMEOUT, HANG, CLUSTER, False, "Timed out"),
    # The function's own error wins over what the others say of the network, however late it comes.
    Row("own, gloo", raised.OWN, raised.GLOO_CLOSED, ERROR, USER, True, "loss is NaN"),
    Row("own, NCCL", raised.OWN, raised.REMOTE, ERROR, USER, True, "loss is NaN"),
    Row("own, store", raised.OWN, raised.STORE_GONE, ERROR, USER, True, "loss is NaN"),
    Row("own, timeout", raised.OWN, raised.GLOO_TIMEOUT, ERROR, USER, True, "loss is NaN"),
    Row("own, GPU lost", raised.OWN, raised.NO_GPUS, ERROR, USER, True, "loss is NaN"),
    Row("own service", raised.OWN_CONNECTION, raised.GLOO_CLOSED, ERROR, USER, True, "Errno 104"),
    Row("own timeout", raised.OWN_TIMEOUT, raised.GLOO_CLOSED, ERROR, USER, True, "timed out"),
    Row("own port", raised.PORT_TAKEN, raised.CONNECT, ERROR, USER, True, "Address already in use"),
    Row("bug in a kernel", raised.ILLEGAL_ACCESS, raised.REMOTE, ERROR, USER, True, "illegal mem"),
    Row("loader killed", raised.LOADER_KILLED, raised.GLOO_CLOSED, ERROR, USER, True, "Killed"),
)


find_last_words = lru_cache(failure_words.find_last_words)


def name_pod(rank: int) -> str:
    return f"job-1-w{rank // PER_POD}"


def shuffle(row: Row, size: int) -> tuple[int, list[int], random.Random]:
    chance = random.Random(f"{row.name} {size}")
    ranks = list(range(size))
    chance.shuffle(ranks)
    return chance.choice(ranks), ranks, chance


def check(found: Failure, row: Row, first: int, size: int) -> None:
    assert f"{found.class_.value}/{found.reason}" == row.reason
    assert found.class_.policy.payer is row.payer
    assert row.words in found.message
    assert len(found.message) <= MESSAGE_CHARS
    is_named = row.suspect or (size == 1 and row.reason != HANG)
    named = {name_pod(first)} if is_named else {""}
    if row.text == row.others and row.suspect:
        named = {name_pod(rank) for rank in range(size)}
    assert found.suspect_pod in named


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("row", DIED, ids=lambda row: row.name)
def test_a_death_means(row: Row, size: int) -> None:
    first, ranks, _ = shuffle(row, size)
    errors = tuple(RankError(rank, RankErrorKind.DIED, DEAD, pod=name_pod(rank)) for rank in ranks)
    reports = {
        rank: PodReport(find_last_words(text))
        for rank in ranks
        for text in [row.text if rank == first else row.others]
        if text is not None
    }
    explained = evidence.explain_errors(errors, reports, has_trained=lambda rank: row.has_trained)
    check(classify_failure(FailureFacts(FailureOrigin.WORKERS, explained)), row, first, size)


def form_group(size: int, *, has_trained: bool) -> Group:
    """All pods have the same process ids: each has its own namespace of them."""
    processes = {
        rank: Process(f"node-{rank // PER_POD}", 100 + rank % PER_POD, f"10.0.0.{rank // PER_POD}", name_pod(rank))
        for rank in range(size)
    }
    group = Group()
    group._processes = processes
    group.trained = {each.node_id for each in processes.values()} if has_trained else set()
    return group


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("row", RAISED, ids=lambda row: row.name)
def test_an_error_means(row: Row, size: int) -> None:
    group = form_group(size, has_trained=row.has_trained)
    first, ranks, _ = shuffle(row, size)
    texts = {rank: row.text if rank == first else str(row.others) for rank in ranks}
    error = WorkerGroupError(
        "text", {rank: TrainingError(RankErrorKind.RAISED, rank, text) for rank, text in texts.items()}
    )
    facts = ray_exceptions.translate_error(error, group)
    errors = failure_policy.add_pods(facts.errors, group.read_processes())
    check(classify_failure(FailureFacts(facts.source, errors)), row, first, size)


@pytest.mark.parametrize("others", [died.REMOTE, died.TIMEOUT_2_5, died.SIGNALLED])
def test_an_error_of_the_function_wins_over_the_deaths_of_its_peers(others: str) -> None:
    errors = (
        *(RankError(rank, RankErrorKind.DIED, DEAD, pod=name_pod(rank)) for rank in range(63)),
        RankError(63, RankErrorKind.RAISED, raised.OWN, pod=name_pod(63)),
    )
    reports = {rank: PodReport(find_last_words(others)) for rank in range(63)}
    explained = evidence.explain_errors(errors, reports, has_trained=lambda rank: True)
    found = classify_failure(FailureFacts(FailureOrigin.WORKERS, explained))
    assert (found.reason, found.suspect_pod) == ("TrainFunctionRaised", name_pod(63))
    assert found.class_.policy.payer is USER


@pytest.mark.parametrize(
    ("text", "report", "reason", "payer"),
    [
        (raised.LOADER_EXITED, PodReport(), "TrainFunctionRaised", USER),
        (raised.LOADER_EXITED, PodReport(find_last_words(died.LOADER_BUS_ERROR)), "SharedMemoryFull", USER),
        # Its own error stands, whatever torch says on the same standard error.
        (raised.LOADER_EXITED, PodReport(find_last_words(died.TIMEOUT_2_5)), "TrainFunctionRaised", USER),
    ],
)
def test_the_pod_of_a_loader_that_was_killed_tells_why(text: str, report: PodReport, reason: str, payer: Payer) -> None:
    errors = (
        RankError(0, RankErrorKind.RAISED, text, pod="w0"),
        RankError(1, RankErrorKind.NETWORK, raised.GLOO_CLOSED, pod="w1"),
    )
    assert [evidence.is_open(each) for each in errors] == [True, False]
    explained = evidence.explain_errors(errors, {0: report}, has_trained=lambda rank: True)
    found = classify_failure(FailureFacts(FailureOrigin.WORKERS, explained))
    assert (found.reason, found.class_.policy.payer, found.suspect_pod) == (reason, payer, "w0")


LOST_GPU = PodReport(lost_gpus=1, gpus=8)


@pytest.mark.parametrize(
    ("text", "report", "reason"),
    [
        (raised.UNKNOWN_ERROR, LOST_GPU, "GPUFailed"),
        (raised.ILLEGAL_ACCESS, LOST_GPU, "GPUFailed"),
        (raised.UNKNOWN_ERROR, PodReport(gpus=8), "GPULost"),
        (raised.ILLEGAL_ACCESS, PodReport(gpus=8), "TrainFunctionRaised"),
    ],
)
def test_a_gpu_that_no_longer_answers_is_beyond_doubt(text: str, report: PodReport, reason: str) -> None:
    kind = failure_words.find_kind(text, has_trained=True) or RankErrorKind.RAISED
    errors = (RankError(3, kind, text, pod="w1"), RankError(4, RankErrorKind.NETWORK, raised.REMOTE, pod="w2"))
    assert [evidence.is_open(each) for each in errors] == [True, False]
    explained = evidence.explain_errors(errors, {3: report}, has_trained=lambda rank: True)
    found = classify_failure(FailureFacts(FailureOrigin.WORKERS, explained))
    assert (found.reason, found.suspect_pod) == (reason, "w1") and text[:20] in found.message
    assert ("1 of the 8 GPUs of its pod no longer answer NVML" in found.message) == bool(report.lost_gpus)


TASK = "\x1b[36mray::RayTrainWorker._RayTrainWorker__execute()\x1b[39m (pid={}, ip={}, actor_id=ab, repr=Worker)\n"
TRACE = '  File "/opt/venv/lib/python3.11/site-packages/ray/train/torch/config.py", line 88, in _setup\n'


@pytest.mark.parametrize(
    ("text", "reason", "payer", "suspect"),
    [
        (raised.ECC, "Hardware/GPUFailed", CLUSTER, "job-1-w7"),
        (raised.REMOTE, "Hardware/NetworkFailed", CLUSTER, "job-1-w7"),
        (raised.CONNECT, "Hardware/NetworkFailed", CLUSTER, "job-1-w7"),
        (raised.CLIENTS, "Hardware/NetworkFailed", CLUSTER, ""),  # rank 0 says it of the others
        (raised.NO_GPUS, "Hardware/GPULost", CLUSTER, "job-1-w7"),
        (raised.PORT_TAKEN, "Application/TrainingFailed", USER, ""),
        (raised.OWN, "Application/TrainingFailed", USER, ""),
    ],
)
def test_an_error_while_the_process_group_forms_means(text: str, reason: str, payer: Payer, suspect: str) -> None:
    """As Ray passes it on: an instance of both classes, whose text alone names the process."""
    group = form_group(512, has_trained=True)
    trace = f"{TASK.format(103, '10.0.0.7')}{TRACE}{text}\nCompile with `TORCH_USE_CUDA_DSA`"
    error = ControllerError(RayTaskError("set_up", trace, RuntimeError(text)).as_instanceof_cause())
    facts = ray_exceptions.translate_error(error, group)
    errors = failure_policy.add_pods(facts.errors, group.read_processes())
    found = classify_failure(FailureFacts(facts.source, errors, text=facts.text))
    assert f"{found.class_.value}/{found.reason}" == reason
    assert (found.class_.policy.payer, found.suspect_pod) == (payer, suspect)
    assert text.split("\n")[0].partition(" (train.py")[0] in found.message, "not only the last line"
    assert ("rank 59" in found.message) == bool(suspect)


def test_a_process_that_ended_without_a_word_has_no_words() -> None:
    assert find_last_words(died.KILLED) == ""
    log = "INFO: what: ncclRemoteError was caught and tried again\nWARNING CUDA error: unknown error in a log of mine\n"
    assert find_last_words(log * 1000) == "", "what the function logged is not why it died"


def test_a_crash_is_placed_at_the_users_line() -> None:
    crash = """Fatal Python error: Segmentation fault

Thread 0x00007f53cd2106c0 (most recent call first):
  File "/other.py", line 3 in elsewhere

Current thread 0x00007f53cdcafb80 (most recent call first):
  File "/usr/lib/python3/site-packages/torch/functional.py", line 519 in einsum
  File "/src/train.py", line 14 in step
  File "/src/train.py", line 30 in train_func

Extension modules: numpy.core
"""
    assert find_last_words(crash) == "Fatal Python error: Segmentation fault (train.py, line 14, in step)"
    of_libraries = crash.replace("/src/", "/usr/lib/python3/site-packages/torch/")
    assert find_last_words(of_libraries) == "Fatal Python error: Segmentation fault"


def test_words_are_whole_and_quotes_are_short() -> None:
    words = find_last_words(died.REMOTE)
    assert "vendor err 249" in words and "frame #" not in words and "_raylet.so" not in words
    assert "Watchdog caught" in find_last_words("x" * 200_000 + "\n" + died.TIMEOUT_2_5)
