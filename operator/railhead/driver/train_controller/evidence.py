"""What failed, by the words of torch, CUDA, NCCL, gloo and faulthandler. Pure.

Frameworks wrap the messages in exceptions of their own, so the text decides: the whole of it, since only what a message
quotes is shortened. Left out is what bugs in kernels cause more often than broken hardware: illegal accesses, illegal
instructions, unspecified launch failures. tests/unit/driver/evidence has recorded texts and what each of them means.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Callable, Optional

from railhead.contract.outcome import shorten_middle
from railhead.driver.errors import Kind
from railhead.driver.train_controller.failure import RankError

# The first phrase that a text contains decides. Source of the CUDA texts: cudaGetErrorString of libcudart 12, with the
# number in cudaError; NCCL has the same ones after "Cuda failure".
_PHRASES = {
    "address already in use": None,  # torch's DistNetworkError for a port that the user chose
    "while creating shared memory segment": Kind.SHARED_MEMORY,  # NCCL, as the last error of an ncclSystemError
    "out of shared memory": Kind.SHARED_MEMORY,  # torch's DataLoader
    "insufficient shared memory (shm)": Kind.SHARED_MEMORY,  # the same, on the standard error of its worker
    "unable to allocate shared memory(shm)": Kind.SHARED_MEMORY,  # torch's MapAllocator
    "uncorrectable ecc error": Kind.GPU,  # cudaErrorECCUncorrectable (214)
    "uncorrectable nvlink error": Kind.GPU,  # cudaErrorNvlinkUncorrectable (220)
    "invalid access of peer gpu memory over nvlink or a hardware error": Kind.GPU,  # cudaErrorContained (226)
    "cuda error: hardware stack error": Kind.GPU,  # cudaErrorHardwareStackError (714)
    "cuda-capable device(s) is/are busy or unavailable": Kind.GPU,  # cudaErrorDevicesUnavailable (46)
    "cuda error: system not yet initialized": Kind.GPU,  # cudaErrorSystemNotReady (802): the fabric manager of NVSwitch
    "gpu is lost": Kind.GPU,  # NVML_ERROR_GPU_IS_LOST
    "fallen off the bus": Kind.GPU,  # Xid 79 of NVIDIA's driver
    "cuda error: unknown error": Kind.GPU_LOST,  # cudaErrorUnknown (999), as after Xid 79
    "no cuda-capable device is detected": Kind.GPU_LOST,  # cudaErrorNoDevice (100)
    "no cuda gpus are available": Kind.GPU_LOST,  # torch, when the driver lists none
    "ncclremoteerror": Kind.NETWORK,  # ncclResult_t: a network error, or a peer that ended early
    "ncclsystemerror": Kind.NETWORK,  # ncclResult_t: a call to the system failed, such as a socket's or ibverbs'
    "connection closed by remote peer": Kind.NETWORK,  # NCCL, which may call it an ncclInternalError
    "fatal python error: bus error": Kind.BUS,  # faulthandler, which Ray switches on in its workers
    "watchdog caught collective operation timeout": Kind.UNANSWERED,  # torch's ProcessGroupNCCL
    "processgroupnccl's watchdog got stuck": Kind.UNANSWERED,  # the same, by the thread that watches the watchdog
    "ms for recv operation to complete": Kind.UNANSWERED,  # gloo
    "ms for send operation to complete": Kind.UNANSWERED,  # gloo
    "gloo/transport/": Kind.NETWORK,  # the file that gloo names first in each error of a connection
    "diststoreerror": Kind.NETWORK,  # torch: ranks that have not joined, or a key that none of them has set
    "distnetworkerror": Kind.NETWORK,  # torch: no connection to the store
    "runtimeerror: socket timeout": Kind.NETWORK,  # the same, before torch 2.2
    "dump signal from another rank": Kind.SIGNALLED,  # torch's monitor of the watchdog, which ends the process
    "received a dump signal due to a collective timeout": Kind.SIGNALLED,  # the same; torch says so after any error
}
# A rank that died without a word next to one of these is its consequence, or was never asked.
_CAUSES = (Kind.GPU, Kind.GPU_LOST, Kind.BUS, Kind.SHARED_MEMORY, Kind.KILLED_FOR_MEMORY, Kind.UNANSWERED)
# The lines with which a runtime ends a process. Their ends are the stacks of torch and of Ray.
_LAST_WORDS = re.compile(
    r"(?:Fatal Python error: |terminate called |what\(\): |\[[EF][ \d][^\n\]]*ProcessGroupNCCL\.cpp:\d+\] "
    r"|ERROR: Unexpected bus error ).*(?:\n(?!Exception raised from |frame #|\[|.*\(\+0x).+){0,6}"
)
_STACK = re.compile(r" \S*\(\+0x.*")
_PREFIX = re.compile(
    r"^(?:[\s\S]*(?:what\(\): +|ProcessGroupNCCL\.cpp:\d+\] ))?"
    r"(?:\[[^\]\n]*Rank \d+\] *|(?:Process group|NCCL) watchdog thread terminated with exception: )*"
)
_MOST_WORDS, _QUOTED_CHARS = 40, 400
_OF_CUDA = re.compile(r"cuda error|cuda failure|cudnn error", re.IGNORECASE)  # torch; NCCL; torch, of cuDNN
_LOADER = "DataLoader worker (pid"  # torch: "is killed by signal: Killed", or "exited unexpectedly" above that


@dataclass(frozen=True)
class PodReport:
    """What the pod of a rank's process tells after its end.

    Attributes:
        words: the last ones of its standard error.
        lost_gpus: how many of the pod's `gpus` no longer answer.
        record: its flight recorder's, as JSON that zlib has compressed.
    """

    words: str = ""
    lost_gpus: int = 0
    gpus: int = 0
    record: Optional[bytes] = None


def find_kind(text: str, *, has_trained: bool) -> Optional[Kind]:
    """Returns None when the text names none, so that the error is the application's own.

    `has_trained`: on the rank's node. Before that a GPU that is not there is a mistake in an image or a variable.
    """
    small = text.lower()
    kind = next((kind for phrase, kind in _PHRASES.items() if phrase in small), None)
    return None if kind == Kind.GPU_LOST and not has_trained else kind


def find_last_words(text: str) -> str:
    """What its runtimes said of a process's end, in paragraphs; empty if nothing."""
    found = (_STACK.sub("", match.group()).strip() for match in _LAST_WORDS.finditer(text))
    return "\n\n".join(list(dict.fromkeys(found))[-_MOST_WORDS:])


def is_open(error: RankError) -> bool:
    """Whether the rank's pod may know more of it than its text says."""
    is_of_cuda = error.kind == Kind.GPU_LOST or (error.kind == Kind.RAISED and _OF_CUDA.search(error.text) is not None)
    return is_of_cuda or _is_of_a_death(error)


def _is_of_a_death(error: RankError) -> bool:
    return error.kind == Kind.DIED or (error.kind == Kind.RAISED and _LOADER in error.text)


def explain_errors(
    errors: tuple[RankError, ...],
    reports: Mapping[int, PodReport],
    *,
    has_trained: Callable[[int], bool],
) -> tuple[RankError, ...]:
    """The errors with their causes, without those of ranks that died of another's cause.

    `reports`: of the ranks whose pods answered.
    """
    explained = tuple(
        _explain(each, reports[each.rank], has_trained=has_trained(each.rank)) if each.rank in reports else each
        for each in errors
    )
    kinds = {each.kind for each in explained}
    is_explained = bool(kinds.intersection(_CAUSES))

    def has_cause(error: RankError) -> bool:
        if error.kind != Kind.DIED or (error.rank in reports and reports[error.rank].words):
            return True
        # What others say of the network is what a process that was killed looks like to them.
        return not is_explained and (error.rank in reports or not kinds.intersection((Kind.NETWORK, Kind.SIGNALLED)))

    return tuple(each for each in explained if has_cause(each))


def _explain(error: RankError, report: PodReport, *, has_trained: bool) -> RankError:
    if report.lost_gpus:
        text = f"{report.lost_gpus} of the {report.gpus} GPUs of its pod no longer answer NVML"
        return replace(error, kind=Kind.GPU, text=f"{text} ({error.text})")
    if not _is_of_a_death(error):
        return error
    kind = find_kind(report.words, has_trained=has_trained)
    if error.kind == Kind.RAISED and kind != Kind.SHARED_MEMORY:
        kind = None  # an error of its own, whatever else its runtimes said
    if not report.words or (error.kind == Kind.RAISED and not kind):
        return error
    return replace(error, kind=kind or error.kind, text=f"{_quote(report.words)} ({error.text})")


def _quote(text: str) -> str:
    """The paragraph that decides, or the last ones."""
    texts = list(dict.fromkeys(" ".join(_PREFIX.sub("", each).split()) for each in text.split("\n\n")))
    decisive = next((text for text in texts if find_kind(text, has_trained=True)), "; ".join(texts[-3:]))
    return shorten_middle(decisive, _QUOTED_CHARS)
