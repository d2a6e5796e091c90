"""What is changed in the processes of a Ray node: `ray start`, with its raylet and servers, and the log monitor.

A raylet starts two Python agents, waits for the files to which they write their ports, and
dies after 15 s, which is hard-coded (ray-project/ray#65983). A busy machine, or one that
reads the image for the first time, needs longer for their imports. With ports chosen here,
the raylet has what it waits for when it starts, and the node joins at once.

Without `ray[default]` the first agent runs no servers. A raylet with ports for them would try to reach
them for 30 s and then log an error, in the job's log too. That agent only ends with its raylet, but imports most of
Ray; a raylet does not start without one, so a few lines take its place.

With spec.logs.forward Rank0 a worker pod's log monitor sends to the head only the lines of the process that is rank 0,
from its first mark on. The rest never leaves the pod, so that neither Ray's control store nor the driver
carries what the head does not show. With None there is no log monitor.

When one of the processes of Ray's head has died, `ray start` would kill the others. But Ray ends a driver at once whose
raylet is gone (ray-project/ray#53679), before it can tell how the attempt ended. So `ray start` stops itself instead
(SIGSTOP), which wakes the driver, its parent; the kernel kills them all once the driver has ended.

The raylet starts each worker process by `start_worker`, which needs less time than Ray's own program.
`ray start` is imported without Ray's other commands, which need more time than all the rest.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import os
import random
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable, Sequence

from railhead.contract.callbacks import ignore
from railhead.driver.container.pod_processes import IDLE_AGENT, describe_exit
from railhead.driver.messages.log import log
from railhead.driver.messages.rank_marks import find_mark
from railhead.driver.ray.start_worker import start_worker

ONLY_RANK_0 = "RAILHEAD_ONLY_RANK_0"  # in the environment of a worker pod's Ray
STATISTICS = "RAY_USAGE_STATS_ENABLED"
# above Ray's own range, below the kernel's for outgoing connections
FIRST = 20000
LAST = 32000
# Pods may share a machine's ports: in a local cluster, and with hostNetwork.
OPTIONS = (
    "--dashboard-agent-listen-port",
    "--dashboard-agent-grpc-port",
    "--metrics-export-port",
    "--runtime-env-agent-port",
)
# The files of the first agent's ports, in the raylet's module, and the parameters of `start_raylet`.
FILES = {
    "DASHBOARD_AGENT_LISTEN_PORT_NAME": "dashboard_agent_listen_port",
    "METRICS_AGENT_PORT_NAME": "metrics_agent_port",
    "METRICS_EXPORT_PORT_NAME": "metrics_export_port",
}
LOST_PROCESS = "Ray's head has lost a process: "  # begins the line by which `ray start` tells why it stops
SCRIPTS = "ray.scripts.scripts"
# Ray starts without these commands too, as it does in an image without ray[serve].
OTHER_COMMANDS = ("ray.serve.scripts", "ray.dashboard.modules.job.cli", "ray.util.state.state_cli")
SETUP = f"from {start_worker.__module__} import start_worker\n\nstart_worker({{original!r}})\n"
AGENT_OPTION = "--dashboard_agent_command="
AGENT = "import os, time\n\nwhile str(os.getppid()) == os.environ['RAY_RAYLET_PID']:\n    time.sleep(1)\n"

Module = Any  # one of Ray's, in which names are replaced


def run_ray(arguments: list[str]) -> None:
    """Runs `ray start ...`; returns or exits when Ray does."""
    from ray._private import node, services, utils

    from ray import _raylet

    scripts = import_scripts()

    # The raylet of an older Ray does not wait.
    if hasattr(_raylet, "persist_port"):
        missing = list_missing(scripts.start, services, _raylet, utils)
        # A newer Ray: it starts as it does by itself.
        if missing:
            log(f"ray start has no {', '.join(missing)}: on a busy machine a node may not join")
        else:
            is_minimal = utils.get_dashboard_dependency_error() is not None
            arguments = [*arguments, *choose_ports(arguments, OPTIONS[-1:] if is_minimal else OPTIONS)]
            prepare_raylet(services, _raylet, is_minimal=is_minimal)
    # Processes and open ports that no TrainJob uses; `ray start` has no option to leave them out.
    node.Node.start_ray_client_server = ignore
    # Without the dashboard, that is all that this server is for.
    if os.environ.get(STATISTICS) == "0":
        node.Node.start_api_server = ignore
    if "--head" in arguments and hasattr(node.Node, "kill_all_processes"):
        node.Node.kill_all_processes = stop_instead(node.Node.kill_all_processes)
    sys.argv = ["ray", *arguments]
    scripts.main()


def stop_instead(kill_all: Callable[..., None]) -> Callable[..., None]:
    """Returns what `ray start --block` is to call once one of its processes has died; `kill_all` is Ray's method."""

    @functools.wraps(kill_all)
    def kill_all_processes(node: Any, **options: Any) -> None:
        # A graceful end is that of a `ray start` which has failed or received SIGTERM, for which nobody waits.
        if not options.get("allow_graceful"):
            print(describe_dead(node.dead_processes()), flush=True)
            os.kill(os.getpid(), signal.SIGSTOP)
        kill_all(node, **options)

    return kill_all_processes


def describe_dead(processes: Sequence[tuple[str, subprocess.Popen[bytes]]]) -> str:
    """Describes which of Ray's processes have died, and how, in a line of the head's log."""
    return LOST_PROCESS + ", ".join(f"{name} {describe_exit(process.returncode)}" for name, process in processes)


def import_scripts() -> Module:
    """Returns Ray's module with `ray start`, imported without its other commands; with them if it needs one."""
    left_out = [name for name in OTHER_COMMANDS if name not in sys.modules]
    for name in left_out:
        sys.modules[name] = None  # type: ignore[assignment]  # its import raises ImportError
    try:
        with contextlib.suppress(ImportError):
            importlib.import_module(SCRIPTS)
    finally:
        for name in left_out:
            del sys.modules[name]
    return importlib.import_module(SCRIPTS)


def list_missing(start: Any, services: Module, raylet: Module, utils: Module) -> list[str]:
    """Returns what this module needs of `ray start`, `services.start_raylet` and two modules and they do not have."""
    options = {option for parameter in start.params for option in parameter.opts}
    names = inspect.signature(services.start_raylet).parameters
    missing = [each for each in OPTIONS if each not in options]
    missing += [each for each in ("session_dir", "node_id", "setup_worker_path", *FILES.values()) if each not in names]
    missing += [each for each in FILES if not hasattr(raylet, each)]
    return missing + [each for each in ("get_dashboard_dependency_error",) if not hasattr(utils, each)]


def choose_ports(given: Sequence[str], options: Sequence[str] = OPTIONS) -> list[str]:
    """Returns `options` with ports on which nothing listens, nor will Ray's head, by its own option."""
    found: list[int] = []
    with contextlib.ExitStack() as taken:
        for port in random.SystemRandom().sample(range(FIRST, LAST), 1000):
            if len(found) < len(options) and f"--port={port}" not in given:
                with contextlib.suppress(OSError):
                    taken.enter_context(_bind(port))
                    found.append(port)
    return [f"{option}={port}" for option, port in zip(options, found)]


def _bind(port: int) -> socket.socket:
    """Takes the port at every address of the pod, in both families. Raises OSError if anything has it."""
    # A kernel without IPv6 has no socket for both families.
    if not socket.has_dualstack_ipv6():
        bound = socket.socket()
    else:
        bound = socket.socket(socket.AF_INET6)
        bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    try:
        bound.bind(("", port))
    except OSError:
        bound.close()
        raise
    return bound


def prepare_raylet(services: Module, raylet: Module, *, is_minimal: bool) -> None:
    """Makes `services.start_raylet` write the ports that a raylet reads from files; -1, as Ray does, for no server.

    The raylet then starts its workers by `start_worker`. Source: `Node.start_raylet` in `ray/_private/node.py` and
    `ray/dashboard/agent.py`.
    """
    start = services.start_raylet

    @functools.wraps(start)
    def start_raylet(*arguments: object, **options: object) -> object:
        call = inspect.signature(start).bind(*arguments, **options)
        bound = call.arguments
        for name, parameter in FILES.items():
            port = -1 if is_minimal else bound[parameter]
            raylet.persist_port(bound["session_dir"], bound["node_id"], getattr(raylet, name), port)
        # Nodes may share the folder.
        setup = Path(bound["session_dir"], f"setup-worker-{bound['node_id']}.py")
        setup.write_text(SETUP.format(original=bound["setup_worker_path"]))
        bound["setup_worker_path"] = str(setup)
        if is_minimal:
            agent = Path(bound["session_dir"], f"{bound['node_id']}-{IDLE_AGENT}")
            agent.write_text(AGENT)
            services.start_ray_process = replace_agent(services.start_ray_process, agent)
        return start(*call.args, **call.kwargs)

    services.start_raylet = start_raylet


def replace_agent(start: Callable[..., object], agent: Path) -> Callable[..., object]:
    """Returns `services.start_ray_process` for a raylet that runs the file `agent` as its first agent."""
    own = AGENT_OPTION + subprocess.list2cmdline([sys.executable, "-I", "-S", str(agent)])

    @functools.wraps(start)
    def start_ray_process(command: list[str], *arguments: object, **options: object) -> object:
        return start([own if each.startswith(AGENT_OPTION) else each for each in command], *arguments, **options)

    return start_ray_process


class RankFilter:
    """Keeps the lines of rank 0; which rank a process is, its marks tell."""

    def __init__(self) -> None:
        self._ranks: dict[object, int] = {}

    def select(self, pid: object, lines: list[str]) -> list[str]:
        """Returns the lines of rank 0. `pid`: a process id, or the name of one of Ray's own daemons."""
        kept = []
        for line in lines:
            mark = find_mark(line)
            if mark is not None:
                self._ranks[pid] = mark.rank
            if self._ranks.get(pid) == 0:
                kept.append(line)
        return kept


def install_filter(raylet: Module) -> None:
    """Makes Ray's log monitor publish rank 0's lines only. `raylet`: the module `ray._raylet`. Source: `LogMonitor`
    in `ray/_private/log_monitor.py`."""
    filter_ = RankFilter()

    class GcsClient(raylet.GcsClient):  # type: ignore[misc]  # Ray's is compiled: none of its methods can be set
        def publish_logs(self, data: dict[str, Any]) -> None:
            lines = filter_.select(data["pid"], data["lines"])
            if lines:
                self.__getattr__("publish_logs")({**data, "lines": lines})  # of an inner client

    raylet.GcsClient = GcsClient
