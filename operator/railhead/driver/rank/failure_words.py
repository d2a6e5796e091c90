"""The words with which torch, CUDA, NCCL, gloo and faulthandler tell what failed. Pure.

Frameworks wrap the messages in exceptions of their own, so the text decides: the whole of it, since only what a message
quotes is shortened. Left out is what bugs in kernels cause more often than broken hardware: illegal accesses, illegal
instructions, unspecified launch failures. tests/unit/driver/evidence has recorded texts and what each of them means.
"""

from __future__ import annotations

import re
from typing import Optional

from railhead.contract.outcome import shorten_middle
from railhead.driver.messages.frames import choose_frame, describe_frame, find_package, read_printed_frame
from railhead.driver.messages.rank_errors import RankErrorKind

# The first phrase that a text contains decides. Source of the CUDA texts: cudaGetErrorString of libcudart 12, with the
# number in cudaError; NCCL has the same ones after "Cuda failure".
_PHRASES = {
    "address already in use": None,  # torch's DistNetworkError for a port that the user chose
    # NCCL, as the last error of an ncclSystemError
    "while creating shared memory segment": RankErrorKind.SHARED_MEMORY,
    "out of shared memory": RankErrorKind.SHARED_MEMORY,  # torch's DataLoader
    "insufficient shared memory (shm)": RankErrorKind.SHARED_MEMORY,  # the same, on the standard error of its worker
    "unable to allocate shared memory(shm)": RankErrorKind.SHARED_MEMORY,  # torch's MapAllocator
    "uncorrectable ecc error": RankErrorKind.GPU,  # cudaErrorECCUncorrectable (214)
    "uncorrectable nvlink error": RankErrorKind.GPU,  # cudaErrorNvlinkUncorrectable (220)
    "invalid access of peer gpu memory over nvlink or a hardware error": RankErrorKind.GPU,  # cudaErrorContained (226)
    "cuda error: hardware stack error": RankErrorKind.GPU,  # cudaErrorHardwareStackError (714)
    "cuda-capable device(s) is/are busy or unavailable": RankErrorKind.GPU,  # cudaErrorDevicesUnavailable (46)
    # cudaErrorSystemNotReady (802): the fabric manager of NVSwitch
    "cuda error: system not yet initialized": RankErrorKind.GPU,
    "gpu is lost": RankErrorKind.GPU,  # NVML_ERROR_GPU_IS_LOST
    "fallen off the bus": RankErrorKind.GPU,  # Xid 79 of NVIDIA's driver
    "cuda error: unknown error": RankErrorKind.GPU_LOST,  # cudaErrorUnknown (999), as after Xid 79
    "no cuda-capable device is detected": RankErrorKind.GPU_LOST,  # cudaErrorNoDevice (100)
    "no cuda gpus are available": RankErrorKind.GPU_LOST,  # torch, when the driver lists none
    "ncclremoteerror": RankErrorKind.NETWORK,  # ncclResult_t: a network error, or a peer that ended early
    # ncclResult_t: a call to the system failed, such as a socket's or ibverbs'
    "ncclsystemerror": RankErrorKind.NETWORK,
    "connection closed by remote peer": RankErrorKind.NETWORK,  # NCCL, which may call it an ncclInternalError
    "fatal python error: bus error": RankErrorKind.BUS,  # faulthandler, which Ray switches on in its workers
    "watchdog caught collective operation timeout": RankErrorKind.UNANSWERED,  # torch's ProcessGroupNCCL
    # the same, by the thread that watches the watchdog
    "processgroupnccl's watchdog got stuck": RankErrorKind.UNANSWERED,
    "ms for recv operation to complete": RankErrorKind.UNANSWERED,  # gloo
    "ms for send operation to complete": RankErrorKind.UNANSWERED,  # gloo
    "gloo/transport/": RankErrorKind.NETWORK,  # the file that gloo names first in each error of a connection
    "diststoreerror": RankErrorKind.NETWORK,  # torch: ranks that have not joined, or a key that none of them has set
    "distnetworkerror": RankErrorKind.NETWORK,  # torch: no connection to the store
    "runtimeerror: socket timeout": RankErrorKind.NETWORK,  # the same, before torch 2.2
    "dump signal from another rank": RankErrorKind.SIGNALLED,  # torch's monitor of the watchdog, which ends the process
    # the same; torch says so after any error
    "received a dump signal due to a collective timeout": RankErrorKind.SIGNALLED,
}
# The lines with which a runtime ends a process. Their ends are the stacks of torch and of Ray.
_LAST_WORDS = re.compile(
    r"(?:Fatal Python error: |terminate called |what\(\): |\[[EF][ \d][^\n\]]*ProcessGroupNCCL\.cpp:\d+\] "
    r"|ERROR: Unexpected bus error ).*(?:\n(?!Exception raised from |frame #|\[|.*\(\+0x).+){0,6}"
)
# The stack of the thread that crashed, by faulthandler, below those of all others; the innermost frame comes first.
_CRASHED = re.compile(r"^(?:Current thread|Stack) .*\(most recent call first\):\n((?:  File .*\n?)+)", re.MULTILINE)
_CRASHED_FRAME = re.compile(r'  File "(.+)", line (\d+) in (.+)')
_STACK = re.compile(r" \S*\(\+0x.*")
_PREFIX = re.compile(
    r"^(?:[\s\S]*(?:what\(\): +|ProcessGroupNCCL\.cpp:\d+\] ))?"
    r"(?:\[[^\]\n]*Rank \d+\] *|(?:Process group|NCCL) watchdog thread terminated with exception: )*"
)
_MOST_WORDS = 40
_QUOTED_CHARS = 400
OF_CUDA = re.compile(r"cuda error|cuda failure|cudnn error", re.IGNORECASE)  # torch; NCCL; torch, of cuDNN
LOADER = "DataLoader worker (pid"  # torch: "is killed by signal: Killed", or "exited unexpectedly" above that


def find_kind(text: str, *, has_trained: bool) -> Optional[RankErrorKind]:
    """Returns None when the text names none, so that the error is the application's own.

    `has_trained`: on the rank's node. Before that a GPU that is not there is a mistake in an image or a variable.
    """
    small = text.lower()
    kind = next((kind for phrase, kind in _PHRASES.items() if phrase in small), None)
    if kind == RankErrorKind.GPU_LOST and not has_trained:
        return None
    return kind


def find_last_words(text: str) -> str:
    """Returns what its runtimes said of a process's end, in paragraphs; empty if nothing."""
    found = []
    for match in _LAST_WORDS.finditer(text):
        words = _STACK.sub("", match.group()).strip()
        if words.startswith("Fatal Python error: "):
            words += _find_crash(text[match.end() :])
        found.append(words)
    return "\n\n".join(list(dict.fromkeys(found))[-_MOST_WORDS:])


def _find_crash(text: str) -> str:
    """Returns the user's line at which the process crashed, in brackets, if the text has that thread's stack."""
    stack = _CRASHED.search(text)
    if stack is None:
        return ""
    innermost_first = [read_printed_frame(*found) for found in _CRASHED_FRAME.findall(stack[1])]
    place = choose_frame(innermost_first[::-1])
    if find_package(place.filename) is not None:
        return ""
    return f" ({describe_frame(place)})"


def quote_words(text: str) -> str:
    """Quotes the paragraph that decides, or the last ones."""
    texts = list(dict.fromkeys(" ".join(_PREFIX.sub("", each).split()) for each in text.split("\n\n")))
    decisive = next((text for text in texts if find_kind(text, has_trained=True)), "; ".join(texts[-3:]))
    return shorten_middle(decisive, _QUOTED_CHARS)
