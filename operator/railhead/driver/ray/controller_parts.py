"""The parts that fit() hands to Ray Train's controller: our policies take the place of Ray's, and actors that do
nothing in a TrainJob are left out.

Each of those is a process that starts with the worker group. PlacementGroupCleaner frees the workers' places when the
controller dies; then fit() fails, and all pods of the attempt end. It asks Ray's dashboard, which no pod runs, so it
would free nothing, and the end of a run would wait 12 s for it. The other two are for datasets, which the trainer
may not have: `_AutoscalingCoordinatorActor` divides the nodes between Ray Train and Ray Data (it also requests more
nodes: here those are pods), and DatasetManager, since Ray 2.60, serves the shards.

Source: `DataParallelTrainer`, `ScalingPolicy` and `DatasetsCallback` in `ray/train/v2`; tests/ray/test_contract.py
checks what this relies on.
"""

from __future__ import annotations

import functools
import sys
from types import SimpleNamespace
from typing import Any, Callable, List, Mapping, NoReturn, Optional, Protocol, Sequence

from railhead.contract.callbacks import ignore
from railhead.driver.ray.types import GroupContext, RayFailureConfig, RayWorker, Trainer

CLEANER = "PlacementGroupCleanerCallback"
DATASETS = "DatasetsCallback"
MANAGER = "DatasetManager"
_GROUPS = "ray.train.v2._internal.execution.worker_group.worker_group"
_DATASETS = "ray.train.v2._internal.callbacks.datasets"
REQUESTS = ("_send_resource_request", "_maybe_send_resource_request", "_cancel_resource_request")
Retries = Callable[[BaseException], bool]  # whether the group restarts after this failure


class GroupSizer(Protocol):
    """Decides the size of an elastic group: None to wait, or to leave it as it is."""

    def decide_start(self) -> Optional[int]: ...
    def decide_resize(self, *, workers: int) -> Optional[int]: ...


def replace_parts(
    make_retries: Callable[[int], Retries], *, make_sizes: Optional[Callable[[], GroupSizer]] = None
) -> None:
    """Changes what each later fit() of this process hands to its controller; Ray offers no other hook.

    `make_retries` gets the max_failures of the run's FailureConfig. A trainer that the user built may have a fixed
    number of workers although the job is elastic, and keeps Ray's own policy of sizes then. So does a script whose
    trainer is elastic: that policy asks the coordinator.
    """
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

    run = DataParallelTrainer._initialize_and_run_controller

    @functools.wraps(run)
    def run_with_ours(self: Trainer, **parts: Any) -> object:
        failures = self.run_config.failure_config
        scaling = self.scaling_config
        parts["failure_policy"] = build_failure_policy(failures, make_retries(failures.max_failures))
        parts["callbacks"] = [each for each in parts.get("callbacks") or [] if type(each).__name__ != CLEANER]
        is_elastic = getattr(scaling, "elasticity_enabled", False)  # since Ray 2.55
        if is_elastic and make_sizes is not None:
            parts["scaling_policy"] = build_scaling_policy(scaling, make_sizes())
        if not self.datasets and (make_sizes is not None or not is_elastic):
            leave_out_data(parts.get("scaling_policy"), parts["callbacks"])
        return run(self, **parts)

    DataParallelTrainer._initialize_and_run_controller = run_with_ours


def build_failure_policy(config: RayFailureConfig, decide: Retries) -> object:
    """Returns a policy of Ray's class, which is pickled into the controller."""
    from ray.train.v2._internal.execution.failure_handling import FailureDecision, FailurePolicy

    class RailheadFailurePolicy(FailurePolicy):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(config)
            self._decide = decide

        def make_decision(self, training_failed_error: BaseException) -> object:
            if self._decide(training_failed_error):
                return FailureDecision.RETRY
            return FailureDecision.RAISE

    return RailheadFailurePolicy()


def build_scaling_policy(config: object, sizes: GroupSizer) -> object:
    """Returns a policy of Ray's class, which is pickled into the controller.

    Ray's own resizes at any time, which throws away the work since the last checkpoint, and after a loss it first
    requests the workers that are gone.
    """
    from ray.train.v2._internal.execution.scaling_policy import ElasticScalingPolicy, NoopDecision

    class RailheadScalingPolicy(ElasticScalingPolicy):  # type: ignore[misc]
        """Ray's own, which talks to the coordinator that Ray Data uses too; the decisions are ours."""

        def __init__(self) -> None:
            super().__init__(config)
            self._sizes = sizes

        def make_decision_for_non_running_worker_group(self) -> object:
            self._maybe_send_resource_request()
            return self._resize_to(self._sizes.decide_start())

        def make_decision_for_running_worker_group(
            self, worker_group_state: GroupContext, worker_group_status: object
        ) -> object:
            self._maybe_send_resource_request()
            return self._resize_to(self._sizes.decide_resize(workers=worker_group_state.num_workers))

        def _resize_to(self, workers: Optional[int]) -> object:
            if workers is None:
                return NoopDecision()
            return self._get_resize_decision(workers)

    return RailheadScalingPolicy()


def leave_out_data(policy: object, callbacks: Sequence[object]) -> None:
    """Changes a trainer's parts that are for datasets. Both are pickled into the controller as they are now."""
    for name in REQUESTS:
        if hasattr(policy, name):
            setattr(policy, name, ignore)
    for each in callbacks:
        if type(each).__name__ == DATASETS and hasattr(sys.modules.get(type(each).__module__), MANAGER):
            setattr(each, "before_init_train_context", NoShards.provide)  # noqa: B010


class NoShards:
    """Answers the ranks that ask for the shard of a dataset."""

    @staticmethod
    def provide(workers: Sequence[RayWorker]) -> Mapping[str, List[NoShards]]:
        """Returns what the callback for datasets gives each rank's context."""
        return {"dataset_shard_provider": [NoShards()] * len(workers)}

    def get_dataset_shard(self, dataset_info: Any) -> NoReturn:
        """Raises KeyError, as Ray's own does."""
        raise KeyError(
            f"Dataset shard for '{dataset_info.dataset_name}' not found. "
            "Please ensure that the dataset is passed through the Trainer `datasets` argument."
        )


def make_room(calls: int) -> None:
    """Makes room for that many calls at once in the actors of the groups that start from now on.

    The controller looks these actors up in two modules of Ray, by their names, when it starts a group.
    """
    from ray.train.v2._internal.execution.checkpoint.sync_actor import SynchronizationActor

    import ray

    groups = sys.modules[_GROUPS]
    datasets = sys.modules.get(_DATASETS)
    roomy = functools.partial(SynchronizationActor.options, max_concurrency=calls)
    setattr(groups, "SynchronizationActor", SimpleNamespace(options=roomy))  # noqa: B010
    # It is made an actor by ray.remote().
    if hasattr(datasets, "DatasetManager"):
        setattr(datasets, "ray", SimpleNamespace(**{**vars(ray), "remote": ray.remote(max_concurrency=calls)}))  # noqa: B010
