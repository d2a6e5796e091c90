"""Real ranks with gloo on this machine: processes that are forked from one which has imported torch once.

Inside them Ray Train's own `report` and its storage work as in a worker; only the barrier of all ranks, which is an
actor of Ray, is a broadcast of torch.
"""

from __future__ import annotations

import datetime
import itertools
import multiprocessing
import os
import queue
import tempfile
import threading
import types
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from railhead.driver.ray import train_context

Result = TypeVar("Result")
PRELOADED = [
    "torch.distributed.checkpoint",
    "torch.distributed.tensor",
    "torch._dynamo",
    "ray.train.v2.api.train_fn_utils",
    "ray.train.huggingface.transformers",
    "transformers.trainer",
]
_numbers = itertools.count()
PATIENCE = datetime.timedelta(minutes=3)  # with a rank that has failed, or a machine that is busy


def run_ranks(world: int, function: Callable[..., Result], folder: Path, *arguments: Any) -> list[Result]:
    """What `function(rank, *arguments)` returns in `world` processes, by rank. It raises what one of them raises."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    meeting = str(folder / f"meeting-{next(_numbers)}")
    with ProcessPoolExecutor(world, mp_context=context) as pool:
        begun = [pool.submit(_run_rank, rank, world, meeting, function, arguments) for rank in range(world)]
        return [each.result(timeout=PATIENCE.total_seconds()) for each in begun]


def _run_rank(
    rank: int, world: int, meeting: str, function: Callable[..., Result], arguments: tuple[Any, ...]
) -> Result:
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    as_ray_sets = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": world}
    os.environ.update({name: str(value) for name, value in as_ray_sets.items()}, GLOO_SOCKET_IFNAME="lo")
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=world, timeout=PATIENCE)
    # A rank that is done at once would close the connections while another one waits for them, and that one fails.
    dist.barrier()
    try:
        return function(rank, *arguments)
    finally:
        dist.destroy_process_group()


def record_progress() -> list[tuple[Any, ...]]:
    """The arguments of later calls of `railhead.training.progress`. Each step is a look at the other ranks."""
    from railhead import training
    from railhead.training import _checkpoints

    calls: list[tuple[Any, ...]] = []
    setattr(training, "progress", lambda step, **others: calls.append((step, *others.values())))  # noqa: B010
    setattr(_checkpoints, "LOOK_SECONDS", 0.0)  # noqa: B010
    return calls


class Rank:
    """Makes this process a rank of a TrainJob with its run in `folder`; `reports` has what reached the controller."""

    def __init__(self, folder: str, *, checkpoint: str = "", storage: str = "") -> None:
        """`storage`: the URI of the run's storage; empty = the folder."""
        import torch.distributed as dist
        from ray.train import Checkpoint

        tempfile.tempdir = os.path.join(folder, f"tmp-{dist.get_rank()}")
        os.makedirs(tempfile.tempdir, exist_ok=True)
        from ray.train.v2._internal.execution import context as ray_context
        from ray.train.v2._internal.execution import train_fn_utils
        from ray.train.v2._internal.execution.preemption import PreemptionContext
        from ray.train.v2._internal.execution.storage import StorageContext

        self.reports: queue.Queue[Any] = queue.Queue()
        self.errors: queue.Queue[BaseException] = queue.Queue()
        self._preemption = PreemptionContext()
        self._context = object.__new__(ray_context.TrainContext)
        fields: dict[str, Any] = dict.fromkeys(ray_context.TrainContext.__dataclass_fields__)
        fields["storage_context"] = StorageContext(storage_path=storage or folder, experiment_dir_name="run")
        fields["execution_context"] = types.SimpleNamespace(
            train_context_callbacks=[],
            result_queue=self.reports,
            training_thread_runner=types.SimpleNamespace(get_exception_queue=lambda: self.errors),
        )
        fields["distributed_context"] = types.SimpleNamespace(
            world_rank=dist.get_rank(), world_size=dist.get_world_size()
        )
        fields.update(current_report_index=0, report_call_index=0, report_order_condition=threading.Condition())
        fields["checkpoint"] = Checkpoint(checkpoint) if checkpoint else None
        fields["preemption_context"] = self._preemption
        fields["checkpoint_upload_threadpool"] = ray_context.ThreadPoolExecutor(2)
        self._context.__dict__.update(fields)
        setattr(ray_context.TrainContext, "_sync_checkpoint_dir_name_across_ranks", _agree_on_name)  # noqa: B010
        ray_context.set_train_context(self._context)
        train_fn_utils.set_train_fn_utils(train_fn_utils.DistributedTrainFnUtils())
        train_context.NOTICES.are_watched = True

    def notify(self, *, deadline: float, ranks: list[int]) -> None:
        """As the controller does with each rank."""
        from ray.train.v2.api.preemption import PreemptionInfo

        self._preemption.preemption_info = PreemptionInfo(
            deadline_ms=int(deadline * 1000), preempted_node_to_ranks={"a": ranks}
        )

    def finish_uploads(self) -> list[tuple[dict[str, Any], str]]:
        """The metrics and the folder of each report, in order. Raises the error of an upload in the background.

        What is left in the folder for temporary files is an error as well.
        """
        self._context.checkpoint_upload_threadpool.shutdown()
        if not self.errors.empty():
            raise self.errors.get()
        assert os.listdir(tempfile.gettempdir()) == []
        reports = [self.reports.get() for _ in range(self.reports.qsize())]
        return [(each.metrics, each.checkpoint.path if each.checkpoint else "") for each in reports]


def _agree_on_name(context: Any, name: str | None = None) -> str:
    import torch.distributed as dist

    names = [name or context.storage_context.make_default_checkpoint_dir_name()]
    dist.broadcast_object_list(names)
    return names[0]
