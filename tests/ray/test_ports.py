"""Who can do what at the ports of a running job without its token: every listening socket of head and workers."""

from __future__ import annotations

import http.client
import os
import socket
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import grpc  # type: ignore[import-untyped]
from prometheus_client.parser import text_string_to_metric_families

from railhead.driver.container.pod_processes import list_descendants, read_process_table
from tests.ray.pods import Pods, make_job, share_pod

WAITING = """
import os, tempfile, time, ray.train

def train_func(config):
    checkpoint = None
    if ray.train.get_context().get_world_rank() == 0:
        folder = tempfile.mkdtemp()
        with open(os.path.join(folder, "weights"), "wb") as file:
            file.write(b"x" * 99)
        checkpoint = ray.train.Checkpoint(folder)
    ray.train.report({"epoch": 0}, checkpoint)
    while not os.path.exists(config["stop"]):
        time.sleep(0.1)
"""
# Processes that Ray would start, and a job has no use for.
UNUSED = (
    "DatasetManager",
    "PlacementGroupCleaner",
    "_AutoscalingCoordinatorActor",
    "ray.util.client.server",
    "dashboard/dashboard.py",
    *("dashboard/agent.py", "ray::DashboardAgent"),  # here Ray is without ray[default]
)
METRICS_PORT = 9400
UPLOADS = "railhead_job_checkpoint_uploads_total"
LISTEN, CLOSED_UDP = "0A", "07"
# Some methods of each of Ray's services: to read, to change, and to run code.
METHODS = {
    "GCS": (
        "NodeInfoGcsService/GetAllNodeInfo",
        "InternalKVGcsService/InternalKVGet",
        "InternalKVGcsService/InternalKVPut",
        "JobInfoGcsService/AddJob",
        "ActorInfoGcsService/RegisterActor",
    ),
    "node manager": (
        "NodeManagerService/GetNodeStats",
        "NodeManagerService/RequestWorkerLease",
        "NodeManagerService/ShutdownRaylet",
    ),
    "object manager": ("ObjectManagerService/Push", "ObjectManagerService/Pull"),
    "worker": (
        "CoreWorkerService/GetCoreWorkerStats",
        "CoreWorkerService/PushTask",
        "CoreWorkerService/KillActor",
    ),
}
PATHS = ("/", "/get_or_create_runtime_env", "/delete_runtime_env_if_possible", "/get_runtime_envs_info")


@dataclass(frozen=True)
class Listener:
    pod: str
    process: str
    host: str
    port: int


def find_listeners(pods: Pods) -> Iterator[Listener]:
    """Those of all processes of head and workers."""
    sockets = {}
    for table in ("tcp", "tcp6", "udp", "udp6"):
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] in (LISTEN, CLOSED_UDP):
                sockets[f"socket:[{fields[9]}]"] = (table, *fields[1].split(":"))
    processes = read_process_table()
    for pod, root in pods.pids.items():
        for pid in (root, *list_descendants(root, processes)):
            for link in Path(f"/proc/{pid}/fd").iterdir():
                table, address, port = sockets.get(os.readlink(link), ("", "", "0"))
                assert not table.startswith("udp"), f"{pod}: UDP port {int(port, 16)}"
                if table:
                    is_any = int(address, 16) == 0
                    host = pods.addresses[pod] if is_any else socket.inet_ntoa(bytes.fromhex(address)[::-1])
                    process = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode().strip()
                    yield Listener(pod, Path(process).name, host, int(port, 16))


def list_processes(pods: Pods) -> Iterator[tuple[str, str, bool]]:
    """(pod, command line, whether it has imported torch)"""
    processes = read_process_table()
    for pod, root in pods.pids.items():
        for pid in (root, *list_descendants(root, processes)):
            command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
            yield pod, command, "libtorch" in Path(f"/proc/{pid}/maps").read_text()


def ask(channel: grpc.Channel, method: str) -> str:
    """The status of an empty request without a token."""
    try:
        channel.unary_unary(method)(b"", timeout=2)
    except grpc.RpcError as error:
        return str(error.code().name)
    return "OK"


def probe(listener: Listener) -> str:
    """What listens there; fails if it does anything without the token."""
    with grpc.insecure_channel(f"{listener.host}:{listener.port}") as channel:
        if ask(channel, "/grpc.health.v1.Health/Check") == "OK":
            answers = {kind: {ask(channel, f"/ray.rpc.{m}") for m in methods} for kind, methods in METHODS.items()}
            assert set.union(*answers.values()) == {"UNAUTHENTICATED", "UNIMPLEMENTED"}, (listener, answers)
            [kind] = [kind for kind, codes in answers.items() if codes == {"UNAUTHENTICATED"}]
            return kind
    try:
        codes = {get_status(listener, path) for path in PATHS}
        if codes == {404}:
            assert get_status(listener, "/metrics", method="GET") == 200
            return "metrics"
        assert codes == {401}, listener
        return "runtime environment agent"
    except (OSError, http.client.HTTPException):
        return "the framework's own"


def get_status(listener: Listener, path: str, *, method: str = "POST") -> int:
    with closing(http.client.HTTPConnection(listener.host, listener.port, timeout=2)) as connection:
        connection.request(method, path, b"")
        return connection.getresponse().status


def read_metrics(head: str) -> dict[tuple[str, ...], float]:
    """The values by name and the values of the labels."""
    with closing(http.client.HTTPConnection(head, METRICS_PORT, timeout=5)) as connection:
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
    families = text_string_to_metric_families(text)
    return {(each.name, *each.labels.values()): each.value for family in families for each in family.samples}


def test_no_port_of_a_running_job_does_anything_without_the_token(tmp_path: Path) -> None:
    """But for torch's own, which know no authentication, and for the job's metrics, which this job serves on one port.

    docs/internals/ray-train.md, Ports of a job, has the table.
    """
    stop = tmp_path / "stop"
    job = share_pod(make_job(train_loop_config={"stop": str(stop)}, metrics_port=METRICS_PORT))
    with Pods(tmp_path, job, source={"user.py": WAITING}) as pods:
        pods.start(workers=1)
        pods.wait_until(lambda: any(report.get("reports") for report in pods.reports))
        found = {listener: probe(listener) for listener in set(find_listeners(pods))}
        processes = list(list_processes(pods))
        pods.wait_until(lambda: (UPLOADS,) in read_metrics(pods.addresses["head"]))  # from the first heartbeat on
        metrics = read_metrics(pods.addresses["head"])
        stop.touch()
        assert pods.wait_ended() == 0, pods.read_log()
    assert any("ray::TrainController" in command for _, command, _ in processes)
    assert not [command for _, command, _ in processes if any(name in command for name in UNUSED)]
    with_torch = [(pod, "RayTrainWorker" in command) for pod, command, has_torch in processes if has_torch]
    assert with_torch == [("w0-0", True)] * 2
    kinds = {pod: {kind for listener, kind in found.items() if listener.pod == pod} for pod in pods.pids}
    ray = {"node manager", "object manager", "worker", "runtime environment agent"}
    assert kinds["head"] == ray | {"GCS", "metrics"}
    [port] = [(listener.pod, listener.port) for listener, kind in found.items() if kind == "metrics"]
    assert port == ("head", METRICS_PORT)
    assert metrics["railhead_job_state", "RUNNING"] == metrics["railhead_job_reports_total",] == 1
    assert metrics["railhead_job_workers",] == 2 and metrics["railhead_job_reported", "epoch"] == 0
    assert metrics[UPLOADS,] == 1 and metrics["railhead_job_checkpoint_upload_bytes_total",] == 99
    assert kinds["w0-0"] == ray | {"the framework's own"}
    unprotected = [listener for listener, kind in found.items() if kind == "the framework's own"]
    assert all("RayTrainWorker" in listener.process for listener in unprotected), unprotected
