"""What the driver assumes about Ray's internals: one test per hook, run with each Ray of the matrix.

No cluster is started. A test that fails here names the hook, the file of the driver that
uses it, and what was expected of Ray.
"""

from __future__ import annotations

import ast
import asyncio
import dataclasses
import importlib
import importlib.util
import inspect
import json
import os
import re
import subprocess
import sys
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray.train import CheckpointConfig

import ray
from railhead.contract.snapshot import parse_snapshot, write_snapshot
from railhead.driver.container.packages import parse_version
from railhead.driver.container.run_context import RunContext
from railhead.driver.head.ray_cluster import ACCELERATOR
from railhead.driver.mailbox.progress import _STATES
from railhead.driver.pod import ray_start
from railhead.driver.pod.ray_start import DEFAULTS, NODE_LABEL, name_kubernetes_node
from railhead.driver.ray import controller_parts, supported_versions
from railhead.driver.ray.checkpoint_manager import list_fields
from railhead.driver.ray.daemons import AGENT_OPTION, OPTIONS
from railhead.driver.ray.start_worker import CONTEXT, LANGUAGE
from railhead.driver.ray.train_context import COPIED, COPY, MARKER_CHECK, METHODS, NOTICE, REPORT, UPLOAD
from railhead.driver.train_controller import CALLBACK
from railhead.driver.train_controller.elastic import Bounds, make_sizes
from railhead.driver.train_controller.failures.failure_policy import make_retries
from railhead.driver.train_controller.failures.health_decision import ERROR, EVICT, translate_health_decision
from railhead.driver.train_controller.railhead_callback import RailheadCallback
from ray import cloudpickle

pytestmark = pytest.mark.filterwarnings("ignore")  # Ray's own, of the versions in the matrix
FOLDER = Path(ray.__file__).parent


def find(module: str, name: str, *, used_by: str) -> Any:
    """An object of Ray; the failure names the code that needs it."""
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        pytest.fail(f"Ray {ray.__version__} has no {module}.{name}, which {used_by} needs: {error}")
    return found


def want_parameters(function: Any, *names: str, used_by: str) -> None:
    known = inspect.signature(function).parameters
    missing = [name for name in names if name not in known]
    assert not missing, (
        f"Ray {ray.__version__}: {function.__qualname__} has no parameter {missing}, which {used_by} gives"
    )


@cache
def read_sources(folder: str) -> str:
    return "\n".join(path.read_text(errors="replace") for path in sorted((FOLDER / folder).rglob("*.py")))


def test_fit_hands_its_policies_to_the_controller_where_the_driver_replaces_them() -> None:
    used_by = "driver/ray/controller_parts.py"
    module = "ray.train.v2.api.data_parallel_trainer"
    fit = find(module, "DataParallelTrainer.fit", used_by=used_by)
    find(module, "DataParallelTrainer._initialize_and_run_controller", used_by=used_by)
    text = inspect.getsource(fit).partition("self._initialize_and_run_controller(")[2]
    for part in ("failure_policy=", "scaling_policy=", "callbacks="):
        assert part in text, f"{used_by}: fit() no longer hands over {part}"
    kind = find("ray.train.v2._internal.execution.failure_handling", "FailurePolicy", used_by=used_by)
    assert kind.__abstractmethods__ == {"make_decision"}, f"{used_by} has make_decision only"
    want_parameters(kind.make_decision, "training_failed_error", used_by=used_by)
    decision = find("ray.train.v2._internal.execution.failure_handling", "FailureDecision", used_by=used_by)
    assert {"RETRY", "RAISE"} <= set(decision.__members__)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of a fit()."""
    monkeypatch.setenv("RAILHEAD_TEMP", str(tmp_path))
    monkeypatch.setenv("RAILHEAD_RUN", "")
    RunContext(str(tmp_path / "r")).write()


def hand_over(trainer: Any, monkeypatch: pytest.MonkeyPatch, **options: Any) -> dict[str, Any]:
    """What fit() of this trainer hands to its controller, as that receives it."""
    from ray.train.v2.api import data_parallel_trainer as module

    seen: dict[str, Any] = {}

    def run(self: Any, **parts: Any) -> SimpleNamespace:
        seen.update(parts)
        return SimpleNamespace(error=None)

    monkeypatch.setattr(module.DataParallelTrainer, "_initialize_and_run_controller", run)
    monkeypatch.setattr(module, "ObjectRefWrapper", lambda function: function)
    controller_parts.replace_parts(partial(make_retries, default=0), **options)
    trainer.fit()
    names = ("failure_policy", "scaling_policy", "callbacks")
    return {name: cloudpickle.loads(cloudpickle.dumps(seen[name])) for name in names}


def test_the_policy_is_made_and_decides(run: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ray.train import FailureConfig, RunConfig, ScalingConfig
    from ray.train.v2._internal.execution.failure_handling import FailureDecision
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer
    from ray.train.v2.api.exceptions import WorkerGroupError

    config = RunConfig(storage_path=str(tmp_path), failure_config=FailureConfig(max_failures=1))
    trainer = DataParallelTrainer(lambda: None, scaling_config=ScalingConfig(num_workers=2), run_config=config)
    policy = hand_over(trainer, monkeypatch)["failure_policy"]
    error = WorkerGroupError("rank 0 failed", {0: ValueError("the loss is not a number")})
    assert [policy.make_decision(error) for _ in range(2)] == [FailureDecision.RETRY, FailureDecision.RAISE]


def test_the_callback_and_the_policies_share_one_group_in_the_controller(
    run: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray pickles each of them by itself."""
    from ray.train import RunConfig, ScalingConfig
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

    monkeypatch.setenv("RAY_TRAIN_CALLBACKS", CALLBACK)
    is_elastic = (parse_version(ray.__version__) or (2, 55)) >= (2, 55)
    scaling = ScalingConfig(num_workers=(1, 2) if is_elastic else 2)
    trainer = DataParallelTrainer(
        lambda: None, scaling_config=scaling, run_config=RunConfig(storage_path=str(tmp_path))
    )
    bounds = Bounds(least=1, most=2, desired=2, per_pod=1, start_wait=0.0, resize_interval=0.0)
    make = partial(make_sizes, bounds) if is_elastic else None
    parts = hand_over(trainer, monkeypatch, make_sizes=make)
    [callback] = [each for each in parts["callbacks"] if isinstance(each, RailheadCallback)]
    group = callback._steps[0]
    assert parts["failure_policy"]._decide.__self__._group is group
    assert not is_elastic or parts["scaling_policy"]._sizes._group is group


def test_the_gcs_accepts_that_a_node_is_dead() -> None:
    used_by = "driver/ray/nodes.py"
    want_parameters(find("ray._private.grpc_utils", "init_grpc_channel", used_by=used_by), "address", used_by=used_by)
    request = find("ray.core.generated.gcs_service_pb2", "UnregisterNodeRequest", used_by=used_by)(node_id=b"1")
    request.node_death_info.reason = request.node_death_info.UNEXPECTED_TERMINATION
    request.node_death_info.reason_message = "gone"
    service = find("ray.core.generated.gcs_service_pb2_grpc", "NodeInfoGcsServiceServicer", used_by=used_by)
    assert callable(service.UnregisterNode)


@pytest.mark.parametrize(
    ("module", "name", "attribute"),
    [
        ("ray.train.v2.api.exceptions", "WorkerGroupError", "worker_failures"),
        ("ray.train.v2.api.exceptions", "ControllerError", "controller_failure"),
        ("ray.train.v2._internal.exceptions", "WorkerHealthCheckFailedError", "health_check_failure"),
        ("ray.train.v2._internal.exceptions", "WorkerHealthCheckTimeoutError", ""),
        ("ray.train.v2._internal.exceptions", "WorkerGroupStartupFailedError", ""),
        ("ray.train.v2._internal.exceptions", "WorkerGroupStartupTimeoutError", ""),
        ("ray.exceptions", "ActorDiedError", ""),
        ("ray.exceptions", "ActorUnavailableError", ""),
        ("ray.exceptions", "OutOfMemoryError", ""),
        ("ray.exceptions", "RayTaskError", ""),
    ],
)
def test_failures_are_known_by_these_names(module: str, name: str, attribute: str) -> None:
    used_by = "driver/train_controller/failures/failure_policy.py"
    kind = find(module, name, used_by=used_by)
    set_there = kind.__init__.__code__.co_names if attribute else ()
    assert not attribute or attribute in set_there, (
        f"Ray {ray.__version__}: {name} has no {attribute}; {used_by} reads it"
    )


def test_callbacks_receive_the_arguments_that_the_driver_reads() -> None:
    used_by = "driver/ray/steps_callback.py"
    module = "ray.train.v2._internal.execution.callback"
    for name, method, parameters in (
        ("ControllerCallback", "after_controller_state_update", ("previous_state", "current_state")),
        ("WorkerGroupCallback", "before_init_train_context", ("workers",)),
        ("WorkerGroupCallback", "after_worker_group_start", ("worker_group",)),
        ("WorkerGroupCallback", "after_worker_group_poll_status", ("worker_group_status",)),
        ("ReportCallback", "after_report", ("training_report", "metrics")),
    ):
        want_parameters(find(module, f"{name}.{method}", used_by=used_by), *parameters, used_by=used_by)
    report = find("ray.train.v2._internal.execution.training_report", "_TrainingReport", used_by=used_by)
    want_parameters(report.__init__, "checkpoint", "metrics", used_by=used_by)
    workers = find("ray.train.v2._internal.execution.worker_group", "WorkerGroup.get_workers", used_by=used_by)
    assert callable(workers)
    metadata = find(
        "ray.train.v2._internal.execution.worker_group.worker", "ActorMetadata.__dataclass_fields__", used_by=used_by
    )
    assert {"node_id", "pid", "node_ip", "hostname"} <= set(metadata)


def test_new_workers_of_a_group_reach_the_steps_before_they_train() -> None:
    """Ray starts each part of a group, and one that it replaces, with `start_training`."""
    used_by = "driver/ray/steps_callback.py"
    bases = {each.__name__ for each in RailheadCallback.__mro__}
    callback = importlib.import_module("ray.train.v2._internal.execution.callback")
    if not hasattr(callback, "ReplicaGroupCallback"):
        pytest.skip(f"Ray {ray.__version__} replaces no part of a group")
    assert "ReplicaGroupCallback" in bases
    start = find(callback.__name__, "ReplicaGroupCallback.after_replica_group_start", used_by=used_by)
    want_parameters(start, "replica_group", used_by=used_by)
    module = "ray.train.v2._internal.execution.worker_group"
    group = find(module, "ReplicaGroup", used_by=used_by)
    text = inspect.getsource(group.start_training)
    assert text.index("after_replica_group_start(self)") < text.index("run_train_fn")
    assert callable(group.execute_single_async) and callable(group.get_workers)
    whole = inspect.getsource(find(module, "WorkerGroup", used_by=used_by))
    replace = whole.partition("def replace_replica_group(")[2]
    order = [replace.index(each) for each in (".replace_workers(", "_init_train_context(", ".start_training(")]
    assert order == sorted(order), f"{used_by}: the group has its new workers by then"


def test_a_group_is_polled_only_after_the_steps_know_it() -> None:
    """A Ray that polls a group before `after_worker_group_start` would hide its first answers from the steps."""
    used_by = "driver/ray/steps_callback.py"
    group = find("ray.train.v2._internal.execution.worker_group", "WorkerGroup", used_by=used_by)
    poll = inspect.getsource(group.poll_status)
    order = [poll.index(each) for each in ("self._assert_active()", ".after_worker_group_poll_status(")]
    assert order == sorted(order), f"{used_by}: Ray polls a group that has not started"
    unstarted = object.__new__(group)
    unstarted._worker_group_state = None
    with pytest.raises(ValueError, match="not active"):
        unstarted.poll_status()
    start = inspect.getsource(group._start_impl)
    order = [start.index(each) for each in ("self._worker_group_state = ", ".after_worker_group_start(self)")]
    assert order == sorted(order), f"{used_by}: Ray frees what the group holds only if it has no state"


@pytest.mark.skipif(
    (parse_version(ray.__version__) or supported_versions.NOTICES) < supported_versions.NOTICES,
    reason="this Ray sends no notices",
)
def test_ranks_take_the_notice_of_the_end_and_read_it_where_the_driver_watches() -> None:
    used_by = "driver/ray/train_context.py"
    info = find("ray.train.v2.api.preemption", "PreemptionInfo", used_by=used_by)
    want_parameters(info, "deadline_ms", "preempted_node_to_ranks", used_by=used_by)
    worker = "ray.train.v2._internal.execution.worker_group.worker"
    want_parameters(find(worker, "RayTrainWorker.mark_preempt", used_by=used_by), "info", used_by=used_by)
    utils = "ray.train.v2._internal.execution.train_fn_utils"
    find(utils, f"DistributedTrainFnUtils.{NOTICE}", used_by="driver/ray/train_context.py")


def test_barriers_are_started_where_the_driver_makes_room_for_all_ranks() -> None:
    used_by = "driver/ray/controller_parts.py"
    group = find("ray.train.v2._internal.execution.worker_group.worker_group", "WorkerGroup", used_by=used_by)
    text = inspect.getsource(group)
    assert text.index(".before_worker_group_start(") < text.index("SynchronizationActor.options("), (
        f"{used_by}: the driver replaces this name before the group starts"
    )
    callback = "ray.train.v2._internal.execution.callback"
    start = find(callback, "WorkerGroupCallback.before_worker_group_start", used_by=used_by)
    want_parameters(start, "worker_group_context", used_by=used_by)
    context = find("ray.train.v2._internal.execution.worker_group", "WorkerGroupContext", used_by=used_by)
    assert "num_workers" in context.__dataclass_fields__, f"{used_by} reads it"
    shards = importlib.import_module("ray.train.v2._internal.callbacks.datasets")
    assert not hasattr(shards, "DatasetManager") or "ray.remote(DatasetManager)" in inspect.getsource(shards), (
        f"{used_by}: Ray starts this actor in another way"
    )


def test_ranks_upload_through_the_methods_that_the_driver_watches() -> None:
    used_by = "driver/ray/train_context.py"
    module = "ray.train.v2._internal.execution.context"
    for name, parameters in METHODS.items():
        method = find(module, f"TrainContext.{name}", used_by=used_by)
        assert list(inspect.signature(method).parameters)[: len(parameters)] == parameters, f"{used_by} does not watch"
    report = find(module, f"TrainContext.{REPORT}", used_by=used_by)
    assert list(inspect.signature(report).parameters)[len(METHODS[REPORT])] == "checkpoint_upload_mode"
    source = inspect.getsource(report)
    assert source.index("_sync_checkpoint_dir_name_across_ranks(") < source.index(f".{UPLOAD}("), (
        f"{used_by}: rank 0 records an upload before it gives the others its name, and they begin after that"
    )
    find("ray.train", "CheckpointUploadMode.NO_UPLOAD", used_by=used_by)
    done = find("ray.train.v2._internal.execution.training_report", "_TrainingReport", used_by=used_by)
    assert "checkpoint" in done.__init__.__code__.co_names, f"{used_by} reads where the checkpoint is"


def test_every_state_of_the_controller_is_known() -> None:
    states = find(
        "ray.train.v2._internal.execution.controller.state",
        "TrainControllerStateType",
        used_by="driver/mailbox/progress.py",
    )
    unknown = {state.state_name for state in states} - set(_STATES) - {"SHUTTING_DOWN"}
    assert not unknown, f"Ray {ray.__version__} has states that driver/mailbox/progress.py does not know: {unknown}"


def test_callbacks_are_named_in_the_environment_and_come_after_rays_own() -> None:
    used_by = "driver/head/run_attempt.py"
    name = find("ray.train.v2._internal.constants", "RAY_TRAIN_CALLBACKS_ENV_VAR", used_by=used_by)
    assert name == "RAY_TRAIN_CALLBACKS"
    controller = find("ray.train.v2._internal.execution.controller.controller", "TrainController", used_by=used_by)
    source = Path(inspect.getfile(controller)).read_text().partition("report_callbacks=")[2]
    order = [source.index("self._checkpoint_manager"), source.index("self._callbacks")]
    assert order == sorted(order), f"{used_by}: a checkpoint would be reported before it is committed"


STARTS_TORCH = """
import sys
from pathlib import Path
from railhead.driver.fit import torch_on_ranks
from ray import cloudpickle
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

torch_on_ranks.leave_out_torch()
config = cloudpickle.loads(cloudpickle.dumps(sys.modules[torch_on_ranks.CONFIG].TorchConfig(timeout_s=9)))
Path(sys.argv[1]).write_bytes(cloudpickle.dumps(config))
config.backend_cls, config.train_func_context
calls = []

class Group:
    gpus = 0
    def __len__(self): return 2
    def get_resources_per_worker(self): return {"CPU": 1, "GPU": self.gpus}
    def execute_single(self, rank, function): return "10.0.0.1", 29500
    def execute(self, function, **options): calls.append(function.__name__)
    def execute_single_async(self, rank, function, **options): calls.append((rank, function.__name__, options))

sys.modules[torch_on_ranks.CONFIG].ray.get = lambda futures: None
for Group.gpus, backend in ((0, "gloo"), (1, "nccl")):
    config.backend_cls().on_start(Group(), config)
    group = {"world_size": 2, "backend": backend, "init_method": "env://", "timeout_s": 9}
    assert calls[-1] == (1, "_setup_torch_process_group", {**group, "world_rank": 1}), calls
assert "torch" not in sys.modules, "the controller has imported torch"
import ray.train.torch
assert ray.train.torch.TorchConfig is type(config)
"""
READS_CONFIG = """
import pickle, sys
from pathlib import Path
from railhead.driver.fit import torch_on_ranks

config = pickle.loads(Path(sys.argv[1]).read_bytes())
assert config.timeout_s == 9 and "torch" not in sys.modules
"""


def test_a_torch_group_starts_without_torch_in_driver_and_controller(tmp_path: Path) -> None:
    """In processes of their own, as this one may have imported it."""
    for code in (STARTS_TORCH, READS_CONFIG):
        command = [sys.executable, "-W", "ignore", "-c", code, str(tmp_path / "config")]
        done = subprocess.run(command, env={**os.environ, "RAY_TRAIN_V2_ENABLED": "1"}, capture_output=True, text=True)
        assert done.returncode == 0, f"driver/fit/torch_on_ranks.py: {done.stderr}"


@pytest.mark.parametrize(
    ("framework", "own"),
    [
        ("torch", {"_get_local_controller"}),  # without workers
        ("tensorflow", set()),
        ("xgboost", {"get_model"}),
        ("lightgbm", {"get_model"}),
        ("jax", {"_validate_scaling_config"}),  # which Ray does not call
    ],
)
def test_ray_makes_a_trainer_of_the_config_alone(framework: str, own: set[str]) -> None:
    """driver/fit/train_func_trainer.py uses their base class. The files import the frameworks: they are read only."""
    text = (FOLDER / f"train/v2/{framework}/{framework}_trainer.py").read_text()
    [trainer] = [each for each in ast.parse(text).body if isinstance(each, ast.ClassDef)]
    assert [ast.unparse(each) for each in trainer.bases] == ["DataParallelTrainer"]
    assert {each.name for each in trainer.body if isinstance(each, ast.FunctionDef)} <= {"__init__", *own}
    assert "backend_config=" in text
    assert "_validate_scaling_config" not in (FOLDER / "train/v2/api/data_parallel_trainer.py").read_text()


@pytest.mark.parametrize("name", sorted(DEFAULTS))
def test_ray_reads_each_variable_that_the_driver_sets(name: str) -> None:
    """Ray ignores a variable that it does not know, without a message."""
    since = {"RAY_TRAIN_ENABLE_PREEMPTION_WATCHER": (2, 57), "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": (2, 57)}
    found = parse_version(ray.__version__)
    if found is not None and found < since.get(name, (0, 0)):
        pytest.skip(f"Ray {ray.__version__} has nothing to switch off there")
    if name.startswith(("RAY_agent", "RAY_process", "RAY_task")):  # read by the C++ code
        known = name.removeprefix("RAY_").encode() in (FOLDER / "core/src/ray/raylet/raylet").read_bytes()
    else:
        known = any(f'{name.removeprefix(p)}"' in read_sources(f) for f in SOURCES for p in ("", "RAY_"))
    assert known, f"Ray {ray.__version__} does not read {name}, which driver/pod/ray_start.py sets"


SOURCES = ("train/v2", "_private", "_common", "data")


def test_ray_start_accepts_the_drivers_options() -> None:
    from ray.scripts.scripts import start

    known = {option for parameter in start.params for option in parameter.opts}
    given = {"--node-ip-address", "--temp-dir", "--num-cpus", "--num-gpus", "--block", "--resources", "--head"}
    given |= {"--port", "--include-dashboard", "--object-store-memory", "--labels", "--address", "--no-monitor"}
    given |= {"--include-log-monitor"}
    missing = given.union(OPTIONS) - known
    assert not missing, f"Ray {ray.__version__}: `ray start` has no {missing}; driver/pod/ray_start.py gives them"


def test_ray_start_accepts_the_name_of_a_kubernetes_node() -> None:
    from ray._private.label_utils import parse_node_labels_string

    longest = "a" * 63
    labels = name_kubernetes_node(longest)
    assert parse_node_labels_string(f"{NODE_LABEL}={longest}") == labels == {NODE_LABEL: longest}
    for refused in ("a" * 64, "-a"):
        assert not name_kubernetes_node(refused)
        with pytest.raises(ValueError, match="label"):
            parse_node_labels_string(f"{NODE_LABEL}={refused}")


@pytest.mark.skipif(
    importlib.util.find_spec("ray.train.health") is None,
    reason="this Ray has no health checks (RunConfig.health_config)",
)
def test_ray_raises_its_health_decisions_by_the_names_that_we_know() -> None:
    """No Ray has them yet; tests/unit/driver/.../test_health_decision.py tries a stand-in until then."""
    used_by = "driver/train_controller/failures/health_decision.py"
    evict = find("ray.train.health", EVICT, used_by=used_by)
    reattempt = find("ray.train.health", "Reattempt", used_by=used_by)
    error = find("ray.train.health.exceptions", ERROR, used_by=used_by)
    assert {"reason", "target_nodes"} <= {each.name for each in dataclasses.fields(evict)}
    assert hasattr(error("x", reattempt()), "worker_failures")
    facts = translate_health_decision(error("x", reattempt(reason="why")))
    assert facts is not None and facts.refusal is not None and "why" in facts.refusal.message


def test_the_node_starts_servers_that_nobody_uses_where_the_driver_leaves_them_out() -> None:
    """Without the dashboard the second one only sends statistics, which are off."""
    used_by = "driver/ray/daemons.py"
    find("ray._private.node", "Node.start_ray_client_server", used_by=used_by)
    start = find("ray._private.node", "Node.start_api_server", used_by=used_by)
    kinds = {each.kind for name, each in inspect.signature(start).parameters.items() if name != "self"}
    assert kinds == {inspect.Parameter.KEYWORD_ONLY}
    services = (FOLDER / "_private" / "services.py").read_text()
    assert '"--modules-to-load=UsageStatsHead"' in services.partition("if not include_dash:")[2][:300]


def test_ray_start_is_imported_without_the_other_commands() -> None:
    """In a process of its own, which has not imported them."""
    code = (
        "import sys; from railhead.driver.ray import daemons; scripts = daemons.import_scripts(); "
        "print(scripts.start.name, 'list' in scripts.cli.commands, set(daemons.OTHER_COMMANDS) & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "start False set()\n", done.stderr


def test_the_dashboard_starts_with_what_the_driver_gives() -> None:
    used_by = "driver/ray/dashboard_process.py"
    start = find("ray._private.services", "start_api_server", used_by=used_by)
    given = ("include_dashboard", "raise_on_failure", "host", "port", "gcs_address", "cluster_id_hex")
    folders = ("node_ip_address", "temp_dir", "logdir", "session_dir", "stdout_filepath", "stderr_filepath")
    want_parameters(start, *given, *folders, "fate_share", used_by=used_by)
    for name in ("gcs_address", "node_ip_address", "get_gcs_client", *(f"get_{each}_dir_path" for each in DIRS)):
        find("ray._private.node", f"Node.{name}", used_by=used_by)
    assert "RAY_DASHBOARD_STARTUP_TIMEOUT_S" in (FOLDER / "_private" / "ray_constants.py").read_text()
    assert 'env_integer("DASHBOARD_METRIC_PORT"' in (FOLDER / "dashboard" / "consts.py").read_text()


def test_an_elastic_trainer_with_rays_own_policy_keeps_the_coordinator(
    run: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a script may have; without an answer of the coordinator it would wait forever."""
    from ray.train import RunConfig, ScalingConfig
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

    if (parse_version(ray.__version__) or (2, 55)) < (2, 55):
        pytest.skip(f"Ray {ray.__version__} has no elastic trainers")
    scaling, config = ScalingConfig(num_workers=(1, 2)), RunConfig(storage_path=str(tmp_path))
    seen = hand_over(DataParallelTrainer(lambda: None, scaling_config=scaling, run_config=config), monkeypatch)
    assert not set(controller_parts.REQUESTS) & set(vars(seen["scaling_policy"]))


@pytest.mark.parametrize("has_datasets", [False, True])
def test_actors_that_nobody_needs_are_left_out(
    run: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_datasets: bool
) -> None:
    from ray.train import RunConfig, ScalingConfig
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

    config = RunConfig(storage_path=str(tmp_path))
    datasets = {"train": object()} if has_datasets else None
    trainer = DataParallelTrainer(
        lambda: None, scaling_config=ScalingConfig(num_workers=2), run_config=config, datasets=datasets
    )
    seen = hand_over(trainer, monkeypatch)
    callbacks = {type(each).__name__: each for each in seen["callbacks"]}
    policy = seen["scaling_policy"]
    assert callbacks and controller_parts.CLEANER not in callbacks
    replaced = set(controller_parts.REQUESTS) & set(vars(policy))
    has_requests = any(hasattr(policy, name) for name in controller_parts.REQUESTS)
    assert replaced == (set(controller_parts.REQUESTS) if has_requests and not has_datasets else set())
    data = callbacks.get(controller_parts.DATASETS)
    has_manager = hasattr(sys.modules.get(type(data).__module__), controller_parts.MANAGER)
    assert ("before_init_train_context" in vars(data or object)) == (has_manager and not has_datasets)
    if has_datasets:
        return
    if has_requests:  # none of these needs a cluster now
        policy.after_controller_start(SimpleNamespace(run_id="run"))
        assert policy.make_decision_for_non_running_worker_group().num_workers == 2
        policy.before_controller_abort()
    if data is not None and has_manager:
        providers = data.before_init_train_context([None, None])["dataset_shard_provider"]
        assert len(providers) == 2
        data.after_worker_group_shutdown(None)
        with pytest.raises(KeyError, match=r"Dataset shard for 'train' not found"):
            providers[1].get_dataset_shard(SimpleNamespace(dataset_name="train"))


def test_the_log_monitor_publishes_lines_where_the_driver_filters_them() -> None:
    find("ray._raylet", "GcsClient", used_by="driver/ray/daemons.py")
    source = (FOLDER / "_private" / "log_monitor.py").read_text()
    assert "from ray._raylet import GcsClient" in source
    assert "self.gcs_client.publish_logs(data)" in source
    assert '"pid": file_info.worker_pid' in source and '"lines": lines_to_publish' in source


def test_ray_says_whether_its_agents_run_servers() -> None:
    used_by = "driver/ray/daemons.py"
    find("ray._private.utils", "get_dashboard_dependency_error", used_by=used_by)
    assert "get_dashboard_dependency_error() is not None" in (FOLDER / "_private" / "services.py").read_text()
    start = find("ray._private.services", "start_ray_process", used_by=used_by)
    assert next(iter(inspect.signature(start).parameters)) == "command"
    source = inspect.getsource(find("ray._private.services", "start_raylet", used_by=used_by))
    assert f'"{AGENT_OPTION}{{}}".format(' in source and "= start_ray_process(\n        command,\n" in source
    for module in (FOLDER / "dashboard" / "modules").rglob("*_agent.py"):
        minimal = re.findall(r"def is_minimal_module\(\)(?: -> bool)?:\n +(?:#.*\n +)*return (\w+)", module.read_text())
        assert "True" not in minimal, f"{module}: the agent of a Ray without ray[default] does something"


def test_ports_of_agents_are_announced_where_the_raylet_reads_them() -> None:
    from ray import _raylet

    if not hasattr(_raylet, "persist_port"):
        pytest.skip(f"nodes of Ray {ray.__version__} do not wait for files with ports")
    used_by = "driver/ray/daemons.py"
    found = find("ray._private.services", "start_raylet", used_by=used_by)
    want_parameters(found, "session_dir", "node_id", "dashboard_agent_listen_port", used_by=used_by)
    find("ray._raylet", "DASHBOARD_AGENT_LISTEN_PORT_NAME", used_by=used_by)
    text = (FOLDER / "_private" / "node.py").read_text()
    assert "ray._private.services.start_raylet(" in text, f"{used_by}: the node starts its raylet in another way"


def test_workers_are_set_up_with_what_the_driver_reads() -> None:
    """An option or a context that it does not know would reach no worker."""
    used_by = "driver/ray/start_worker.py"
    start = find("ray._private.services", "start_raylet", used_by=used_by)
    want_parameters(start, "setup_worker_path", "session_dir", "node_id", used_by=used_by)
    source = (FOLDER / "_private" / "workers" / "setup_worker.py").read_text()
    assert set(re.findall(r'"(--[a-z-]+)"', source)) == {CONTEXT, LANGUAGE}
    context = find("ray._private.runtime_env.context", "RuntimeEnvContext", used_by=used_by)
    known = {"command_prefix", "env_vars", "py_executable", "override_worker_entrypoint", "java_jars"}
    assert set(inspect.signature(context).parameters) == known
    assert set(json.loads(context().serialize())) == known


def test_ray_uses_the_names_of_resources_and_overrides() -> None:
    constants = find("ray._private.ray_constants", "__dict__", used_by="driver/pod/ray_start.py")
    names = {constants["RESOURCES_ENVIRONMENT_VARIABLE"], constants["LABELS_ENVIRONMENT_VARIABLE"]}
    assert names == {"RAY_OVERRIDE_RESOURCES", "RAY_OVERRIDE_LABELS"}
    for text in (f'"{ACCELERATOR}"', '"node:__internal_head__"'):
        assert any(text in read_sources(folder) for folder in ("_common", "_private", "train", "util")), text


TOKEN_PROGRAM = "from ray._raylet import AuthenticationTokenLoader as t; print(t.instance().get_raw_token())"


@pytest.mark.parametrize(
    ("given", "token"),
    [
        ({}, "of-the-file"),
        ({"RAY_AUTH_TOKEN": ""}, "of-the-file"),
        ({"RAY_AUTH_TOKEN": "of-the-image"}, "of-the-image"),
    ],
)
def test_an_empty_token_in_the_environment_leaves_that_of_the_file(
    tmp_path: Path, given: dict[str, str], token: str
) -> None:
    """One that is not empty outranks the file, and so an image or envFrom must not set it."""
    file = tmp_path / "token"
    file.write_text("of-the-file")
    environment = {**os.environ, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(file), **given}
    command = [sys.executable, "-c", TOKEN_PROGRAM]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines()[-1] == token


# Of variables that may change who can talk to a cluster, where its parts are, or which code its processes load.
DECISIVE = re.compile(
    "AUTH|TLS|TOKEN|CERT|PASSWORD|CREDENTIAL|COOKIE|REDIS_|ADDRESS|ADDR$|HOST$|_IP$|_PORT$|URL$|PROXY|HEADERS|"
    "STORAGE(_PATH|_NAMESPACE)?$|HOOK|CALLBACK|PLUGIN|PRELOAD|LIB_PATH|PICKLE|UNSAFE|OVERRIDE|RUNTIME_ENV$|CONFIG|K8S|"
    "LEADER|MIRROR|FN_PATH",
    re.IGNORECASE,
)
DIRS = ("temp", "logs", "session")
# Parts of Ray that no job starts, and settings of how often or how long.
NOT_STARTED = {"serve", "llm", "rllib", "autoscaler", "tests"}
MEASURES = re.compile("RETRY|RETRIES|TIMEOUT|INTERVAL|_WAIT_|METRICS_ENABLED|UNLINK", re.IGNORECASE)
DECIDED = re.compile(r"^\| (`_*RAY_.+?) \|", re.MULTILINE)
DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "internals" / "ray-train.md"


def find_variables() -> set[str]:
    """The decisive ones in Ray's Python files, and in its programs, which have ray_config_def.h compiled in."""
    found: set[bytes] = set()
    for path in FOLDER.rglob("*.py"):
        if path.relative_to(FOLDER).parts[0] not in NOT_STARTED:
            found.update(re.findall(rb"[\"'](_*RAY_[A-Za-z0-9_]+)[\"']", path.read_bytes()))
    programs = [
        FOLDER / "_raylet.so",
        *(FOLDER / "core" / "src" / "ray" / name for name in ("raylet/raylet", "gcs/gcs_server")),
    ]
    for program in programs:
        found.update(re.findall(rb"(?<![A-Za-z0-9_])RAY_[A-Za-z0-9_]+(?=\0)", program.read_bytes()))
    names = {name.decode() for name in found}
    return {name for name in names if DECISIVE.search(name) and not MEASURES.search(name)}


def test_each_variable_of_ray_that_decides_on_trust_is_decided_on() -> None:
    """A new one of a later Ray belongs into the table, and into `REMOVED` if an image must not set it."""
    cells = "\n".join(DECIDED.findall(DOCUMENT.read_text()))
    decided = re.findall(r"`(_*RAY_\w+)(\*?)`", cells)
    exact = {name for name, star in decided if not star}
    prefixes = tuple(name for name, star in decided if star)
    found = find_variables()
    assert {"RAY_AUTH_TOKEN", "RAY_gcs_storage", "RAY_enable_cluster_auth"} <= found, (
        "the search finds what is compiled in"
    )
    assert sorted(name for name in found - exact if not name.startswith(prefixes)) == []
    removed = {name for name in exact if re.search(rf"`{name}`[^|]*\|[^|]*\| removed", DOCUMENT.read_text())}
    assert removed == {*ray_start.REMOVED}


def test_the_scaling_policy_of_elastic_groups_decides_with_the_methods_that_the_driver_replaces() -> None:
    used_by = "driver/ray/controller_parts.py"
    if (parse_version(ray.__version__) or (2, 55)) < (2, 55):
        pytest.skip(f"Ray {ray.__version__} has no elastic jobs; driver/pod/ray_start.py refuses them")
    policies = "ray.train.v2._internal.execution.scaling_policy"
    find(policies, "NoopDecision", used_by=used_by)
    want_parameters(
        find(policies, "ElasticScalingPolicy._get_resize_decision", used_by=used_by), "num_workers", used_by=used_by
    )
    find(policies, "ElasticScalingPolicy._maybe_send_resource_request", used_by=used_by)
    find(policies, "ElasticScalingPolicy.make_decision_for_non_running_worker_group", used_by=used_by)
    decide = find(policies, "ElasticScalingPolicy.make_decision_for_running_worker_group", used_by=used_by)
    want_parameters(decide, "worker_group_state", "worker_group_status", used_by=used_by)


def test_the_checkpoint_manager_commits_and_deletes_with_the_fenced_methods() -> None:
    used_by = "driver/ray/checkpoint_manager.py"
    module = "ray.train.v2._internal.execution.checkpoint.checkpoint_manager"
    commit = find(module, "CheckpointManager._save_state_and_delete_old_checkpoints", used_by=used_by)
    register = find(module, "CheckpointManager.register_checkpoint", used_by=used_by)
    assert commit.__name__ in register.__code__.co_names, f"{used_by}: it drops repeated names before that"
    want_parameters(find(module, "delete_fs_path", used_by=used_by), "fs", "fs_path", used_by=used_by)
    names = commit.__code__.co_names
    assert {"_write_state_to_storage", "delete_fs_path"} <= set(names), (
        f"{used_by}: Ray commits in another way: {names}"
    )
    text = inspect.getsource(commit)
    order = [text.index("_write_state_to_storage("), text.index("delete_fs_path(")]
    assert order == sorted(order), f"{used_by}: Ray deletes before it commits"
    text = inspect.getsource(importlib.import_module(module))
    others = [way for way in (".delete_dir(", ".delete_file(", "rmtree") if way in text]
    assert not others, f"{used_by}: Ray deletes in another way too: {others}"
    writes = [line for line in read_sources("train/v2/_internal").splitlines() if "_write_state_to_storage(" in line]
    assert len(writes) == 2, f"{used_by}: the definition and one call were expected: {writes}"
    find("ray.train.v2._internal.execution.storage", "get_fs_and_path", used_by="driver/ray/checkpoint_manager.py")


def test_a_workers_checkpoint_is_that_of_its_context() -> None:
    used_by = "driver/ray/train_context.py"
    module = "ray.train.v2._internal.execution.context"
    find(module, "get_train_context", used_by=used_by)
    fields = find(module, "TrainContext", used_by=used_by).__dataclass_fields__
    assert "checkpoint" in fields, f"Ray {ray.__version__}: a worker's context has no checkpoint; {used_by} sets it"
    answer = find("ray.train.v2._internal.execution.train_fn_utils", "DistributedTrainFnUtils", used_by=used_by)
    assert "get_checkpoint" in answer.get_checkpoint.__code__.co_names, f"{used_by}: Ray answers in another way"


async def test_storage_and_snapshot_are_read_as_ray_writes_them(tmp_path: Path) -> None:
    """By Ray's own manager, in a real folder."""
    used_by = "driver/ray/checkpoint_manager.py"
    context = find("ray.train.v2._internal.execution.storage", "StorageContext", used_by=used_by)(
        storage_path=str(tmp_path), experiment_dir_name="run"
    )
    manager = find(
        "ray.train.v2._internal.execution.checkpoint.checkpoint_manager", "CheckpointManager", used_by=used_by
    )(checkpoint_config=CheckpointConfig(num_to_keep=2), storage_context=context)
    copied = list(inspect.signature(getattr(type(context), COPY)).parameters)
    assert copied == COPIED, "driver/ray/train_context.py wraps it"
    assert callable(getattr(context, MARKER_CHECK))  # seen in tracebacks by driver/rank/watched_uploads.py
    snapshot = Path(context.checkpoint_manager_snapshot_path)
    assert snapshot == tmp_path / "run" / "checkpoint_manager_snapshot.json"
    for number in range(3):
        register(manager, context, f"checkpoint_{number}")
        await asyncio.sleep(0)  # for the manager's tasks
    used_by = "contract/snapshot.py"
    read = parse_snapshot(snapshot.read_text())
    assert read.latest == "checkpoint_2"
    written = write_snapshot(read, fields=list_fields(), ray_version=ray.__version__)
    assert json.loads(written) == json.loads(snapshot.read_text()), f"{used_by}: this Ray's snapshot has another form"
    assert json.loads(manager._save_state()) == json.loads(written), f"{used_by}: the copy is made of _save_state()"


def register(manager: Any, context: Any, name: str) -> None:
    """Registers a report of all ranks, as each Ray's manager expects it."""
    from ray.train import Checkpoint
    from ray.train._internal.session import _TrainingResult
    from ray.train.v2._internal.execution.training_report import _TrainingReport

    folder = Path(context.experiment_fs_path, name)
    folder.mkdir()
    checkpoint = Checkpoint(str(folder), filesystem=context.storage_filesystem)
    if "is_result_pending" in inspect.signature(manager.register_checkpoint).parameters:  # before 2.55
        manager.register_checkpoint(_TrainingResult(checkpoint, {"loss": 1.0}), False)
    else:
        manager.register_checkpoint(_TrainingReport(checkpoint, {"loss": 1.0}, False))


def test_the_gcs_says_which_resources_wait_and_what_the_nodes_have() -> None:
    used_by = "driver/ray/pending_demand.py"
    find("ray._raylet", "GcsClient", used_by=used_by)
    reply = find("ray.core.generated.autoscaler_pb2", "GetClusterResourceStateReply", used_by=used_by)
    state = reply().cluster_resource_state
    waiting = state.pending_resource_requests.add(count=2)
    waiting.request.resources_bundle["GPU"] = 1.0
    state.pending_gang_resource_requests.add().requests.add().resources_bundle["CPU"] = 1.0
    node = state.node_states.add()
    node.total_resources["CPU"] = node.available_resources["CPU"] = 1.0
    client = read_sources("_private")
    assert "get_cluster_resource_state" in client + read_sources("autoscaler/v2"), used_by
