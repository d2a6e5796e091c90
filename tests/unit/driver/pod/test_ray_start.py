"""The commands and the environment of `ray start`, and the Ray version that a job needs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import ray.train
from ray._common.network_utils import build_address, parse_address

from railhead.contract import environment as e
from railhead.contract.job_input import ElasticInput, RayNode, RayNodes, ScalingInput
from railhead.driver.container.hosts import write_address
from railhead.driver.container.pod_input import Pod
from railhead.driver.pod.ray_start import (
    REMOVED,
    build_head_command,
    build_ray_environment,
    build_worker_command,
    compute_poll_seconds,
    plan_hang_detector,
)
from railhead.driver.ray.supported_versions import drop_unsupported_defaults, explain_ray_problem, warn_without_notices
from tests.ray.pods import make_job

ENVIRONMENT = {
    e.INPUT: "/in",
    e.BUNDLE: "/opt/railhead/railhead.pyz",
    e.POD_IP: "10.0.0.7",
    e.HEAD_HOST: "head.svc",
    e.HEAD_PORT: "23456",
    e.TEMP: "/tmp/railhead",
}
POD = Pod.from_environment(ENVIRONMENT)


def test_head_offers_no_cpus_or_gpus_even_if_configured() -> None:
    job = make_job(ray_node=RayNodes(head=RayNode(cpus=4, gpus=1, object_store_bytes=7)))
    command = build_head_command(POD, job)
    assert command[1:4] == ["/opt/railhead/railhead.pyz", "ray", "start"]
    for argument in (
        "--head",
        "--num-cpus=0",
        "--num-gpus=0",
        "--port=23456",
        "--node-ip-address=10.0.0.7",
        "--temp-dir=/tmp/railhead",
        "--include-dashboard=false",
        "--object-store-memory=7",
        "--block",
    ):
        assert argument in command
    assert not any(argument.startswith("--include-log-monitor") for argument in command)


def test_only_the_dashboard_needs_the_events_of_tasks_and_it_opens_no_other_port() -> None:
    without, with_it = (
        build_ray_environment(ENVIRONMENT, job=make_job(has_dashboard=each), pod=POD, folder="/")
        for each in (False, True)
    )
    assert without["RAY_task_events_report_interval_ms"] == "0"
    assert with_it["RAY_task_events_report_interval_ms"] == "1000"
    assert with_it["DASHBOARD_METRIC_PORT"] == "65536"
    assert "--include-dashboard=false" in build_head_command(POD, make_job(has_dashboard=True))


def test_worker_command_sets_its_resources() -> None:
    node = RayNode(cpus=3, gpus=2, resources={"example.com/nic": 1.0}, object_store_bytes=9)
    command = build_worker_command(POD, make_job(ray_node=RayNodes(worker=node)), head_address="10.0.0.1")
    assert {"--num-cpus=3", "--num-gpus=2", "--address=10.0.0.1:23456"} <= set(command)
    resources = next(a for a in command if a.startswith("--resources="))
    assert json.loads(resources.partition("=")[2]) == {"example.com/nic": 1.0}


def test_an_ipv6_address_is_written_as_ray_reads_it() -> None:
    command = build_worker_command(POD, make_job(), head_address="fd00::5")
    [address] = [each.partition("=")[2] for each in command if each.startswith("--address=")]
    assert parse_address(address) == ("fd00::5", "23456")
    assert write_address("fd00::5", 7) == build_address("fd00::5", 7) == "[fd00::5]:7"
    assert write_address("10.0.0.7", 7) == build_address("10.0.0.7", 7) == "10.0.0.7:7"


@pytest.mark.parametrize(("forward", "has_monitor"), [("All", True), ("Rank0", True), ("None", False)])
def test_a_worker_whose_lines_nobody_wants_has_no_log_monitor(forward: str, has_monitor: bool) -> None:
    command = build_worker_command(POD, make_job(forward_logs=forward), head_address="10.0.0.1")
    assert ("--include-log-monitor=false" not in command) == has_monitor


def test_environment_can_be_overridden_except_the_bundles_path() -> None:
    given = {
        "PYTHONPATH": "/app",
        "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "1",
        "RAY_DEDUP_LOGS": "1",
        "RAY_AUTH_MODE": "token",
    }
    job = make_job(collective_timeout_seconds=60)
    found = build_ray_environment(given, job=job, pod=POD, folder="/work")
    assert found["PYTHONPATH"] == "/opt/railhead/railhead.pyz:/app"
    assert found["RAY_TRAIN_HEALTH_CHECK_INTERVAL_S"] == "1"
    assert found["RAY_DEDUP_LOGS"] == "1"
    assert found["RAY_AUTH_MODE"] == "token"
    assert found["RAY_TRAIN_COLLECTIVE_TIMEOUT_S"] == "60"
    assert given == {**given}


@pytest.mark.parametrize(("workers", "seconds"), [(1, 0.2), (20, 0.2), (64, 0.64), (200, 2.0), (5000, 2.0)])
def test_a_head_polls_at_most_100_workers_per_second_or_all_of_them_every_two_seconds(
    workers: int, seconds: float
) -> None:
    assert compute_poll_seconds(workers) == seconds


def test_enables_the_preemption_watcher_only_with_a_drain() -> None:
    names = ("RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S", "RAY_TRAIN_ENABLE_PREEMPTION_WATCHER")
    for seconds, expected in ((0, ("0", "0")), (45, ("45", "1"))):
        found = build_ray_environment(ENVIRONMENT, job=make_job(drain_seconds=seconds), pod=POD, folder="/")
        assert tuple(found[name] for name in names) == expected


def test_an_image_or_env_from_decides_nothing_that_is_the_operators() -> None:
    """RAY_AUTH_TOKEN would outrank the job's token, and RAY_OVERRIDE_RESOURCES contradict the pod's resources."""
    own = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": "/auth/token"}
    prefixed = (
        "RAY_AUTH_TOKEN",
        "RAY_AUTH_OF_LATER",
        "RAY_OVERRIDE_RESOURCES",
        "RAY_OVERRIDE_LABELS",
        "RAY_REDIS_ADDRESS",
    )
    foreign = dict.fromkeys((*prefixed, *REMOVED), "evil")
    found = build_ray_environment({**ENVIRONMENT, **own, **foreign}, job=make_job(), pod=POD, folder="/")
    assert "evil" not in found.values()
    assert not foreign.keys() & found.keys(), "Ray counts some of them as given when they are empty"
    assert own.items() <= found.items()


def test_worker_command_sets_labels_in_rays_format() -> None:
    node = RayNode(cpus=1, labels={"zone": "a", "example.com/gpu": "H100"})
    command = build_worker_command(POD, make_job(ray_node=RayNodes(worker=node)), head_address="10.0.0.2")
    assert "--labels=example.com/gpu=H100,zone=a" in command
    assert not any(a.startswith("--labels") for a in build_worker_command(POD, make_job(), head_address="10.0.0.2"))


@pytest.mark.parametrize("name", ["gpu-7", "ip-10-0-1-2.eu.compute.internal", "a" * 63])
def test_each_ray_node_has_the_name_of_its_kubernetes_node(name: str) -> None:
    pod = replace(POD, node=name)
    node = RayNode(labels={"zone": "a"})
    job = make_job(ray_node=RayNodes(worker=node))
    assert f"--labels=ray.io/k8s-node-name={name}" in build_head_command(pod, job)
    worker = build_worker_command(pod, job, head_address="10.0.0.2")
    assert f"--labels=ray.io/k8s-node-name={name},zone=a" in worker


@pytest.mark.parametrize("name", ["", "a" * 64, "a" * 60 + ".example.com", "-a", "a,b=c"])
def test_a_name_that_is_no_label_is_left_out(name: str) -> None:
    """Ray would not start with it."""
    command = build_head_command(replace(POD, node=name), make_job())
    assert not any(each.startswith("--labels") for each in command)


def test_rays_hang_detector_observes_where_gpus_and_nccls_client_are() -> None:
    """The names are Ray's; a Ray that does not know them ignores them."""
    job = make_job()
    with_gpus = make_job(scaling=replace(job.scaling, use_gpu=True))
    assert plan_hang_detector(job, client="/usr/bin/ncclras") == {}
    assert plan_hang_detector(with_gpus, client=None) == {}
    found = plan_hang_detector(with_gpus, client="/usr/bin/ncclras")
    assert set(found.values()) == {"1", "observe"}
    source = Path(ray.train.__file__).parent / "v2" / "_internal" / "constants.py"
    if "NCCL_RAS" in source.read_text():
        assert all(f'"{name}"' in source.read_text() for name in found)


@pytest.mark.parametrize(
    ("version", "is_rejected"),
    [
        ("", True),
        ("2.51.1", True),
        ("2.9.0", True),
        ("1.13", True),
        ("2.52.0", False),
        ("2.60.0", False),
        ("3.0.0.dev0", False),
        ("odd", False),
    ],
)
def test_rejects_an_old_ray_with_a_clear_message(version: str, is_rejected: bool) -> None:
    problem = explain_ray_problem(version, make_job())
    assert bool(problem) is is_rejected
    if is_rejected:
        assert version in problem
        assert "spec.image" in problem


ELASTIC = ElasticInput(min_workers=1, workers_per_pod=1, start_wait_seconds=1, resize_interval_seconds=1)
# The job's fields, the field named, the newest Ray without it and the oldest with it.
FEATURES = [
    ({"scaling": ScalingInput(2, ray_label_selector={"pool": "a"})}, "scaling.rayLabelSelector", "2.54.9", "2.55.0"),
    ({"validation_function": "user:validate"}, "trainer.validationFunction", "2.53.0", "2.54.0"),
    ({"scaling": ScalingInput(2, elastic=ELASTIC)}, "scaling.minWorkers", "2.54.9", "2.55.0"),
    ({"drain_seconds": 30, "is_drain_required": True}, "worker.drainSeconds", "2.57.0", "2.58.0"),
    ({"log_level": "DEBUG"}, "run.logLevel", "2.55.1", "2.56.0"),
]


@pytest.mark.parametrize(("fields", "field", "lacks", "has"), FEATURES, ids=[f[1] for f in FEATURES])
def test_rejects_unsupported_fields_by_name(fields: dict[str, Any], field: str, lacks: str, has: str) -> None:
    problem = explain_ray_problem(lacks, make_job(**fields))
    assert problem.startswith(f"{field} needs Ray {has.rpartition('.')[0]} or newer, but spec.image has Ray {lacks}")
    assert explain_ray_problem(has, make_job(**fields)) == ""
    assert explain_ray_problem(lacks, make_job()) == ""


@pytest.mark.parametrize(("version", "seconds"), [("2.57.1", 0), ("2.58.0", 30), ("odd", 30)])
def test_drops_the_default_drain_if_ray_does_not_support_it(version: str, seconds: int) -> None:
    assert explain_ray_problem(version, make_job(drain_seconds=30)) == ""
    assert drop_unsupported_defaults(version, make_job(drain_seconds=30)).drain_seconds == seconds
    job = make_job(drain_seconds=30, is_drain_required=True)
    assert drop_unsupported_defaults(version, job) == job


def test_warns_of_an_older_ray_when_the_job_wants_a_last_checkpoint() -> None:
    warning = warn_without_notices("2.57.1", end_seconds=60)
    assert warning is not None and warning.reason == "EndNotAnnounced"
    for expected in ("Ray 2.57.1", "keep only the last committed checkpoint", "Ray 2.58 or newer"):
        assert expected in warning.message
    assert warn_without_notices("2.57.1", end_seconds=0) is None
    assert warn_without_notices("2.58.0", end_seconds=60) is None
