"""Errors that a GPU or the network between GPUs causes, recognised by their text. Pure.

Frameworks wrap the messages of CUDA and NCCL in exceptions of their own, so the text decides. Left out is what bugs
in kernels cause more often than broken hardware: illegal accesses, illegal instructions, unspecified launch failures.
"""

from __future__ import annotations

from railhead.driver.train_controller.failure import BUS, GPU, NETWORK, UNANSWERED

# Source of the CUDA texts: cudaGetErrorString of libcudart 12. "(n)": the number in cudaError.
_PHRASES = {
    "uncorrectable ecc error": GPU,  # cudaErrorECCUncorrectable (214)
    "uncorrectable nvlink error": GPU,  # cudaErrorNvlinkUncorrectable (220)
    "invalid access of peer gpu memory over nvlink or a hardware error": GPU,  # cudaErrorContained (226)
    "cuda error: hardware stack error": GPU,  # cudaErrorHardwareStackError (714)
    "cuda-capable device(s) is/are busy or unavailable": GPU,  # cudaErrorDevicesUnavailable (46)
    "cuda error: system not yet initialized": GPU,  # cudaErrorSystemNotReady (802): the fabric manager of NVSwitch
    "gpu is lost": GPU,  # NVML_ERROR_GPU_IS_LOST
    "fallen off the bus": GPU,  # Xid 79 of NVIDIA's driver
    "ncclremoteerror": NETWORK,  # ncclResult_t: a network error, or a peer that ended early
    "ncclsystemerror": NETWORK,  # ncclResult_t: a call to the system failed, such as a socket's or ibverbs'
    "fatal python error: bus error": BUS,  # faulthandler, which Ray switches on in its workers
    "watchdog caught collective operation timeout": UNANSWERED,  # torch's ProcessGroupNCCL
}


def find_hardware_kind(text: str) -> str:
    """GPU, BUS, NETWORK or UNANSWERED; empty when the text names none of them."""
    small = text.lower()
    return next((kind for phrase, kind in _PHRASES.items() if phrase in small), "")
