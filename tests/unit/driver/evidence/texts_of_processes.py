"""What processes that died had on their standard error: whole texts, with their sources.

"Recorded with Ray 2.60" was written by an actor on this project's own machines; the files are beside this one, with other
paths. "From" names a public issue: its words and frames are quoted as they are there, within the recorded frame of Ray's actor
where the issue has only torch's part. "Made" means: put together from the format string in the named source, never seen.
"""

# ruff: noqa: E501 (quoted texts stay on their lines)
from __future__ import annotations

from pathlib import Path

_TEXTS = Path(__file__).parent / "texts"

# Recorded with Ray 2.60, Python 3.11: an uncaught C++ exception, SIGSEGV, SIGBUS, SIGKILL.
ABORT = (_TEXTS / "ray-2.60-abort.err").read_text()
SEGMENTATION_FAULT = (_TEXTS / "ray-2.60-sigsegv.err").read_text()
BUS_ERROR = (_TEXTS / "ray-2.60-sigbus.err").read_text()
KILLED = (_TEXTS / "ray-2.60-sigkill.err").read_text()
_NAME, _WORDS = "St12length_error", "EVID words"
assert _NAME in ABORT and _WORDS in ABORT
# From vllm#4108, what a process with torch lists below its stack.
MODULES = (
    "torch._C, torch._C._fft, torch._C._linalg, torch._C._nested, torch._C._nn, torch._C._sparse, torch._C._special"
)

# From sglang#1693 (torch 2.4).
TIMEOUT_FRAMES = """
Exception raised from checkTimeout at ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:609 (most recent call first):
frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x96 (0x7f3b6d41df86 in /usr/local/lib/python3.10/dist-packages/torch/lib/libc10.so)
frame #1: c10d::ProcessGroupNCCL::WorkNCCL::checkTimeout(std::optional<std::chrono::duration<long, std::ratio<1l, 1000l> > >) + 0x1d2 (0x7f3b6e71a8d2 in /usr/local/lib/python3.10/dist-packages/torch/lib/libtorch_cuda.so)
frame #2: c10d::ProcessGroupNCCL::watchdogHandler() + 0x233 (0x7f3b6e721313 in /usr/local/lib/python3.10/dist-packages/torch/lib/libtorch_cuda.so)
frame #3: c10d::ProcessGroupNCCL::ncclCommWatchdog() + 0x10c (0x7f3b6e7236fc in /usr/local/lib/python3.10/dist-packages/torch/lib/libtorch_cuda.so)
frame #4: <unknown function> + 0xd6df4 (0x7f3bca9d5df4 in /usr/lib/x86_64-linux-gnu/libstdc++.so.6)
frame #5: <unknown function> + 0x8609 (0x7f3c74f76609 in /usr/lib/x86_64-linux-gnu/libpthread.so.0)
frame #6: clone + 0x43 (0x7f3c750b0353 in /usr/lib/x86_64-linux-gnu/libc.so.6)

"""
# From pytorch#113128 (torch 2.4).
CUDA_FRAMES = """
Exception raised from c10_cuda_check_implementation at ../c10/cuda/CUDAException.cpp:43 (most recent call first):
frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x96 (0x153667acbf86 in /opt/4m/lib/python3.10/site-packages/torch/lib/libc10.so)
frame #1: c10::detail::torchCheckFail(char const*, char const*, unsigned int, std::string const&) + 0x64 (0x153667a7ad10 in /opt/4m/lib/python3.10/site-packages/torch/lib/libc10.so)
frame #2: c10::cuda::c10_cuda_check_implementation(int, char const*, char const*, int, bool) + 0x118 (0x153667ba6f08 in /opt/4m/lib/python3.10/site-packages/torch/lib/libc10_cuda.so)
frame #3: c10d::ProcessGroupNCCL::WorkNCCL::finishedGPUExecutionInternal() const + 0x56 (0x153619d7f3e6 in /opt/4m/lib/python3.10/site-packages/torch/lib/libtorch_cuda.so)

"""
_ADVICE = "\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n"


def in_ray(
    words: str, *, frames: str = TIMEOUT_FRAMES, name: str = "N3c1016DistBackendErrorE", before: str = ""
) -> str:
    """Of a Ray actor that torch aborts: Ray's handler prints `what()`, then stacks of Ray, the signal and Python."""
    text = (
        ABORT.replace(_NAME, name).replace(_WORDS, words + frames).replace("pyarrow._json", f"pyarrow._json, {MODULES}")
    )
    return text.replace(":actor_name:A\n", f":actor_name:RayTrainWorker\nepoch 7: 100%|##| 64/64\n{before}", 1)


def in_plain_python(words: str, *, frames: str = TIMEOUT_FRAMES, name: str = "c10::DistBackendError") -> str:
    """Where no handler of Ray's is installed: libstdc++'s words, then faulthandler's."""
    python = ABORT[ABORT.index("Fatal Python error") :]
    return f"terminate called after throwing an instance of '{name}'\n  what():  {words}{frames}{python}"


# From simpleRL-reason#25, as a Ray actor printed it (torch 2.5).
TIMEOUT_2_5 = in_ray(
    "[PG ID 0 PG GUID 0(default_pg) Rank 5] Process group watchdog thread terminated with exception: [Rank 5] Watchdog caught "
    "collective operation timeout: WorkNCCL(SeqNum=1495581, OpType=_ALLGATHER_BASE, NumelIn=68124672, NumelOut=544997376, "
    "Timeout(ms)=1800000) ran for 1800036 milliseconds before timing out.",
    # From LlamaFactory#7396 and #8261: what torch logs before.
    before="[rank5]:[E321 02:07:08.408271257 ProcessGroupNCCL.cpp:607] [Rank 5] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=1495581, OpType=_ALLGATHER_BASE, NumelIn=68124672, NumelOut=544997376, Timeout(ms)=1800000) ran for "
    "1800036 milliseconds before timing out.\n"
    "[rank5]:[E321 02:07:08.465150152 ProcessGroupNCCL.cpp:1664] [PG ID 0 PG GUID 0(default_pg) Rank 5] Exception (either an "
    "error or timeout) detected by watchdog at work: 1495581, last enqueued NCCL work: 1495582, last completed NCCL work: "
    "1495580.\n"
    "[rank5]:[E321 02:07:08.531176265 ProcessGroupNCCL.cpp:684] [Rank 5] Some NCCL operations have failed or timed out. Due "
    "to the asynchronous nature of CUDA kernels, subsequent GPU operations might run on corrupted/incomplete data.\n"
    "[rank5]:[E321 02:07:08.531247012 ProcessGroupNCCL.cpp:698] [Rank 5] To avoid data inconsistency, we are taking the entire "
    "process down.\n",
)
# From Megatron-LM#935 (torch 2.3 of an NVIDIA image).
TIMEOUT_2_3 = in_plain_python(
    "[PG 1 Rank 7] Process group watchdog thread terminated with exception: [Rank 7] Watchdog caught collective operation "
    "timeout: WorkNCCL(SeqNum=199, OpType=_REDUCE_SCATTER_BASE, NumelIn=7098994688, NumelOut=443687168, Timeout(ms)=600000) "
    "ran for 882725 milliseconds before timing out."
)
# From sglang#1693 (torch 2.4).
TIMEOUT_2_4 = in_plain_python(
    "[PG 3 Rank 5] Process group watchdog thread terminated with exception: [Rank 5] Watchdog caught collective operation "
    "timeout: WorkNCCL(SeqNum=9141, OpType=_ALLGATHER_BASE, NumelIn=19008, NumelOut=152064, Timeout(ms)=600000) ran for 600020 "
    "milliseconds before timing out."
)
# From instructlab/training#520 (torch 2.6).
TIMEOUT_2_6 = in_plain_python(
    "[PG ID 0 PG GUID 0(default_pg) Rank 3] Process group watchdog thread terminated with exception: [Rank 3] Watchdog caught "
    "collective operation timeout: WorkNCCL(SeqNum=1, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=1) ran for 90 "
    "milliseconds before timing out."
)
# From catalyst-rl-tutorial#15 (torch 2.1).
TIMEOUT_2_1 = in_plain_python(
    "[Rank 6] NCCL watchdog thread terminated with exception: [Rank 6] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=880, OpType=BROADCAST, NumelIn=131137536, NumelOut=131137536, Timeout(ms)=1800000) ran for 1800902 "
    "milliseconds before timing out."
)
# Made from ProcessGroupNCCL.cpp of torch 2.4 to 2.15, HeartbeatMonitor::runLoop: "'s watchdog got stuck for ".
WATCHDOG_STUCK = in_ray(
    "",
    frames="",
    before="[rank6]:[E1218 20:27:21.426415540 ProcessGroupNCCL.cpp:1375] [PG ID 0 PG GUID 0(default_pg) Rank 6] "
    "ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress in monitoring enqueued collectives. This "
    "typically indicates a NCCL/CUDA API (e.g., CudaEventDestroy) hang blocking the watchdog, and could be triggered by another "
    "thread holding the GIL inside a CUDA api.\n",
)

# From OpenRLHF#1126 (torch 2.6): a rank that another one's watchdog ends, for a timeout as well as for any other error.
SIGNALLED = in_ray(
    "",
    frames="",
    before="[rank5]:[E901 05:20:03.110823792 ProcessGroupNCCL.cpp:1685] [PG ID 0 PG GUID 0(default_pg) Rank 5] Observed flight recorder dump signal from another rank via TCPStore.\n"
    "[rank5]:[E901 05:20:03.110956967 ProcessGroupNCCL.cpp:1746] [PG ID 0 PG GUID 0(default_pg) Rank 5] Received a dump signal due to a collective timeout from  rank 34 and we will try our best to dump the debug info. Last enqueued NCCL work: 460631, last completed NCCL work: 460630.This is most likely caused by incorrect usages of collectives, e.g., wrong sizes used across ranks, the order of collectives is not same for all ranks or the scheduled collective, for some reason, didn't run.\n",
)

# From pytorch#113128 (torch 2.4).
ECC = in_ray(
    "[PG 0 (default_pg) Rank 12] Process group watchdog thread terminated with exception: CUDA error: uncorrectable ECC error "
    "encountered" + _ADVICE,
    frames=CUDA_FRAMES,
)
# From pytorch#58155 (torch 1.8): the words of CUDA are the same in libcudart 13.
NVLINK = in_plain_python(
    "CUDA error: uncorrectable NVLink error detected during the execution", frames=CUDA_FRAMES, name="c10::Error"
)
# Made: the frame of ECC with cudaErrorUnknown of libcudart 12 and 13.
UNKNOWN_ERROR = ECC.replace("uncorrectable ECC error encountered", "unknown error")
# From vllm#4108 (torch 2.1).
ILLEGAL_ACCESS = in_ray(
    "[Rank 0] NCCL watchdog thread terminated with exception: CUDA error: an illegal memory access was encountered\nCUDA kernel "
    "errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.\nFor debugging "
    "consider passing CUDA_LAUNCH_BLOCKING=1." + _ADVICE,
    frames=CUDA_FRAMES,
)
# From DeepEP#106 (torch 2.4, NCCL 2.20).
REMOTE = in_ray(
    "[PG ID 0 PG GUID 0 Rank 3] Process group watchdog thread terminated with exception: NCCL error: remote process exited or "
    "there was a network error, NCCL version 2.20.5\nncclRemoteError: A call failed possibly due to a network error or a remote "
    "process exiting prematurely.\nLast error:\nNET/IB : Got completion from peer 172.21.17.89<38536> with error 5, opcode 48, "
    "len 32710, vendor err 249",
    frames=TIMEOUT_FRAMES.replace("checkTimeout", "checkForNCCLErrorsInternal"),
)
# From nccl#1514 (torch 2.0, NCCL 2.14): a peer that is gone, called an internal error.
REMOTE_AS_INTERNAL = in_ray(
    "[Rank 3] NCCL watchdog thread terminated with exception: NCCL error: internal error, NCCL version 2.14.3\n"
    "ncclInternalError: Internal check failed.\nLast error:\nNet : Connection closed by remote peer user<50260>",
    frames=TIMEOUT_FRAMES.replace("checkTimeout", "checkForNCCLErrorsInternal"),
)
# From mmsegmentation#1356, on the standard error of the rank, which its DataLoader's processes share.
LOADER_BUS_ERROR = (
    ":job_id:01000000\n:actor_name:RayTrainWorker\n"
    "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).\n"
)
