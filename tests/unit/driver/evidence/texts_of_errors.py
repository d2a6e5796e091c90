"""What train_func raises, as the rank describes it to Ray Train's controller, with the sources of the texts.

"Recorded" is torch 2.15 on a CPU; "from" names a public issue; "made" is put together from a format string.
"""

# ruff: noqa: E501 (quoted texts stay on their lines)
from __future__ import annotations

_PLACE = " (train.py, line 9, in train_func)"
_BACKEND = "torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/"

# From ci-infra#490 (NCCL 2.27) for the last error, from nccl#2076 for the frame of it.
SHM_FULL = (
    f"{_BACKEND}NCCLUtils.cpp:94, unhandled system error (run with NCCL_DEBUG=INFO for details), NCCL version 2.27.3\n"
    "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error. \nLast error:\n"
    f"Error while creating shared memory segment /dev/shm/nccl-WU88OE (size 9637888), error: No space left on device (28){_PLACE}"
)
# From nccl-tests#166 (NCCL 2.18): without the reason.
SHM_FULL_OLD = SHM_FULL.replace(", error: No space left on device (28)", "").replace("2.27.3", "2.18.1")
# From pytorch#108861.
LOADER_OUT_OF_SHM = (
    "RuntimeError: DataLoader worker (pid 11011) is killed by signal: Bus error. It is possible that dataloader's workers are out "
    f"of shared memory. Please try to raise your shared memory limit.{_PLACE}"
)
# Made from MapAllocator.cpp of torch 2.15.
SHM_NOT_ALLOCATED = f"RuntimeError: unable to allocate shared memory(shm) for file </torch_77_3>: Success (0){_PLACE}"
# From pytorch#8976: the cause, and what is raised above it.
LOADER_KILLED = f"RuntimeError: DataLoader worker (pid 1817) is killed by signal: Killed. {_PLACE}"
LOADER_EXITED = f"RuntimeError: DataLoader worker (pid(s) 1817) exited unexpectedly{_PLACE}"
# From accelerate#1192.
ECC = (
    f"RuntimeError: CUDA error: uncorrectable ECC error encountered\nCUDA kernel errors might be asynchronously{_PLACE}"
)
# From mmdetection#461.
UNKNOWN_ERROR = f"RuntimeError: CUDA error: unknown error{_PLACE}"
# From FGDM#7; the string is in libtorch_python of torch 2.15.
NO_GPUS = f"RuntimeError: No CUDA GPUs are available{_PLACE}"
# Made from cudaErrorNoDevice of libcudart 13 and torch's frame.
NO_DEVICE = f"torch.AcceleratorError: CUDA error: no CUDA-capable device is detected{_PLACE}"
# From nccl#2076 (NCCL 2.21).
REMOTE = (
    f"{_BACKEND}NCCLUtils.hpp:268, remote process exited or there was a network error, NCCL version 2.21.5\nncclRemoteError: A "
    "call failed possibly due to a network error or a remote process exiting prematurely.\nLast error:\nsocketProgressOpt: Call "
    f"to recv from 172.16.0.9<33759> failed : Connection reset by peer{_PLACE}"
)
# Recorded.
CLIENTS = "torch.distributed.DistStoreError: Timed out after 1801 seconds waiting for clients. 511/512 clients joined."
CONNECT = (
    "torch.distributed.DistNetworkError: The client socket has timed out after 600000ms while trying to connect to "
    "(10.0.0.7, 29812)."
)
STORE_WAIT = f"torch.distributed.DistStoreError: wait timeout after 600000ms, keys: /default_pg/0//worker_count{_PLACE}"
STORE_GONE = (
    "torch.distributed.DistNetworkError: Failed to recv, got 0 bytes. Connection was likely closed. Did the remote server "
    f"shutdown or crash?{_PLACE}"
)
GLOO_CLOSED = (
    "RuntimeError: [/__w/pytorch/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:561] Connection closed by peer "
    "[10.0.0.7]:56517. This is typically caused by a remote worker crashing. Check the logs of the remote worker before "
    f"reporting an error. GLHF! \U0001f3d6\ufe0f{_PLACE}"
)
GLOO_TIMEOUT = (
    "RuntimeError: [/__w/pytorch/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 1800000ms "
    f"for recv operation to complete{_PLACE}"
)
# From pytorch#55571 (before torch 2.2) and Pai-Megatron-Patch#468 (torch 2.4).
SOCKET_TIMEOUT_OLD = f"RuntimeError: Socket Timeout{_PLACE}"
SOCKET_TIMEOUT = f"torch.distributed.DistStoreError: Socket Timeout{_PLACE}"
# Made from socket.cpp of torch 2.15: the user's own init_process_group with a port that is taken.
PORT_TAKEN = (
    "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. The server socket "
    f"has failed to bind to [::]:29500 (errno: 98 - Address already in use).{_PLACE}"
)
# From vllm#4108.
ILLEGAL_ACCESS = f"RuntimeError: CUDA error: an illegal memory access was encountered{_PLACE}"
# Errors of users' functions that look like the network's: their own services, not the ranks.
OWN_CONNECTION = "ConnectionResetError: [Errno 104] Connection reset by peer (features.py, line 3, in fetch)"
OWN_TIMEOUT = "TimeoutError: timed out (features.py, line 3, in fetch)"
OWN = f"ValueError: loss is NaN{_PLACE}"
