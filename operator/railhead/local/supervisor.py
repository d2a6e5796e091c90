"""The supervisor: the parent of everything that runs in one session.

It starts the control plane, installs Railhead, starts the node agent and the operator,
then watches them. The operator is restarted when it exits, as its Deployment would do;
when anything else exits, the session ends with a message. Children die with it (the kernel
ensures that), and detached processes are found by the marker in their environment.

It prints its progress on stdout and closes stdout when everything is ready.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from types import FrameType

from railhead.local.addresses import free_port
from railhead.local.control_plane import ControlPlane
from railhead.local.control_plane.gangs import GangOptions, find_gang_options
from railhead.local.control_plane.servers import NODE_NAME, NotReady, answers, check_running
from railhead.local.install import (
    NAMESPACE,
    Kubectl,
    build_metrics_role,
    build_node_role,
    install,
    make_operator_kubeconfig,
)
from railhead.local.processes import (
    MARKER,
    end_child,
    identify,
    outlive_parent,
    python_command,
    spawn,
    try_lock,
)
from railhead.local.session import FAILED, READY, STARTING, STOPPED, SUPERVISOR, Capacity, Session, State

WATCH_SECONDS = 0.25
READY_SECONDS = 60.0
# The operator may die at any moment, by design; the agent ends its pods first.
END_ORDER = {"operator": 0.0, "node-agent": 5.0}
LONGEST_BACKOFF_SECONDS = 10.0
# An operator that ran for that time restarts at once.
CALM_SECONDS = 60.0


class StopSignal(BaseException):
    """The session is to stop. Not an Exception, so that no handler on the way treats it as an error."""


class Supervisor:
    """Everything that runs in one session."""

    def __init__(
        self,
        session: Session,
        *,
        binaries: Path,
        capacity: Capacity,
        has_operator: bool = True,
        has_gangs: bool = False,
    ) -> None:
        self.session = session
        gangs = find_gang_options(binaries) if has_gangs else GangOptions()
        self.plane = ControlPlane(
            session.folder, binaries=binaries, api_server_options=gangs.api_server, client_options=gangs.clients
        )
        self.capacity = capacity
        self.has_operator = has_operator
        self._report_port = free_port()
        self._probe_port = free_port()
        self._metrics_port = free_port()
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._operator_began = 0.0
        self._operator_starts = 0

    def start(self, echo: Callable[[str], None]) -> None:
        """Brings everything up.

        Raises:
            NotReady: or any error of the components, with a clear message.
        """
        began = time.monotonic()
        self._write(STARTING)
        echo("starting etcd, kube-apiserver, kube-controller-manager, kube-scheduler")
        self.plane.start()
        self._write(STARTING)
        echo(f"  the API server is ready at {self.plane.server} ({time.monotonic() - began:.1f} s)")
        kubectl = Kubectl(self.session.kubectl, self.session.kubeconfig)
        kubectl.apply(build_node_role(NODE_NAME))
        if self.has_operator:
            echo("installing the TrainJob resource and the operator's role")
            install(kubectl)
            kubectl.apply(build_metrics_role())
            make_operator_kubeconfig(kubectl, self.plane, self.session.folder / "operator.kubeconfig")
            self.start_operator()
        echo(f"starting the node agent{' and the operator' if self.has_operator else ''}")
        self.start_agent()
        self._write(STARTING)
        # Takes longest, and each look at the others is a kubectl, which would take the processor from it.
        if self.has_operator:
            self._wait("the operator", lambda: answers(f"http://127.0.0.1:{self._probe_port}/readyz"))
        self._wait("the node", partial(kubectl.is_node_ready, NODE_NAME))
        self._wait("the namespace", partial(kubectl.has_service_account, "default"))
        self._write(READY)
        echo(f"  ready ({time.monotonic() - began:.1f} s)")

    def start_agent(self) -> None:
        plane = {"plane": self.plane.folder, "server": self.plane.server}
        self._spawn("node-agent", "railhead.local.node", {**plane, "dir": self.session.node, **asdict(self.capacity)})

    def start_operator(self) -> None:
        report = f"127.0.0.1:{self._report_port}"
        self._operator_began = time.monotonic()
        self._operator_starts += 1
        self._spawn(
            "operator",
            "railhead.cli operator",
            {
                "kubeconfig": self.session.folder / "operator.kubeconfig",
                "namespace": NAMESPACE,
                "report-listen": report,
                "report-url": f"https://{report}",
                "probe-listen": f"127.0.0.1:{self._probe_port}",
                # Or the probe port would show the metrics to all users of the machine.
                "metrics-listen": f"127.0.0.1:{self._metrics_port}",
            },
        )

    def watch(self) -> None:
        """Restarts the operator whenever it exits; never returns.

        Raises:
            NotReady: a component that the session cannot do without has exited.
        """
        again_at = 0.0
        while True:
            time.sleep(WATCH_SECONDS)
            self.check()
            if not self.has_operator or self._children["operator"].poll() is None:
                again_at = 0.0
            elif not again_at:
                again_at = time.monotonic() + self._operator_backoff()
            elif time.monotonic() >= again_at:
                self.start_operator()
                self._write(READY)

    def check(self) -> None:
        """Raises NotReady when the control plane or the node agent has exited."""
        self.plane.check()
        agent = self._children.get("node-agent")
        if agent is not None:
            check_running("the node agent", agent, log=self._log("node-agent"))

    def stop(self, phase: str, message: str) -> None:
        """Ends everything: first what acts on the cluster, then the cluster, then whatever is left."""
        for name, grace_seconds in END_ORDER.items():
            child = self._children.get(name)
            if child is not None:
                end_child(child, grace_seconds=grace_seconds)
        self.plane.stop()
        self.session.end_left()
        self.session.write_state(State(phase, message, gpus=self.capacity.gpus))

    def _operator_backoff(self) -> float:
        if time.monotonic() - self._operator_began > CALM_SECONDS:
            self._operator_starts = 0
        return min(LONGEST_BACKOFF_SECONDS, 0.25 * 2.0 ** min(self._operator_starts, 10))

    def _spawn(self, name: str, module: str, options: Mapping[str, object]) -> None:
        env = {**os.environ, MARKER: self.session.marker, "PYTHONUNBUFFERED": "1"}
        self._children[name] = spawn(python_command(module, options), log=self._log(name), env=env)

    def _wait(self, what: str, is_ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while not is_ready():
            self.check()
            operator = self._children.get("operator")
            if operator is not None:
                check_running("the operator", operator, log=self._log("operator"))
            if time.monotonic() > deadline:
                raise NotReady(f"{what} was not ready after {READY_SECONDS:.0f} s")
            time.sleep(0.1)

    def _write(self, phase: str) -> None:
        pids = {SUPERVISOR: os.getpid(), **{name: p.pid for name, p in self._children.items()}, **self.plane.pids()}
        found = {name: identify(pid) for name, pid in pids.items()}
        processes = {name: identity for name, identity in found.items() if identity is not None}
        self.session.write_state(State(phase, "", self.plane.server, self.capacity.gpus, processes))

    def _log(self, name: str) -> Path:
        return self.session.logs / f"{name}.log"


def prepare(session: Session, *, binaries: Path) -> None:
    """Removes what the previous session left, except for volumes: each cluster is a fresh one."""
    for name in ("etcd", "api", "pki", "logs"):
        shutil.rmtree(session.folder / name, ignore_errors=True)
    if session.node.is_dir():
        for entry in session.node.iterdir():
            if entry.name != "volumes":
                shutil.rmtree(entry, ignore_errors=True) if entry.is_dir() else entry.unlink(missing_ok=True)
    session.logs.mkdir(exist_ok=True)
    session.bin.mkdir(exist_ok=True)
    session.kubectl.unlink(missing_ok=True)
    session.kubectl.symlink_to(binaries / "kubectl")


def say_to_parent(text: str) -> None:
    """Raises StopSignal when no process reads any more: then none waits for this session."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        raise StopSignal from None


def close_stdout(log: Path) -> None:
    """Signals to the parent that everything is ready; from here on stdout is the log."""
    sys.stdout.flush()
    with log.open("ab") as out:
        os.dup2(out.fileno(), sys.stdout.fileno())


def run(supervisor: Supervisor, *, outlives_parent: bool) -> int:
    """Runs a session from start to end; returns the exit code."""

    def on_signal(number: int, _: FrameType | None) -> None:
        for sig in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            # A second signal would interrupt the stop that the first one has begun.
            signal.signal(sig, signal.SIG_IGN)
        raise StopSignal(signal.Signals(number).name)

    for sig in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(sig, on_signal)
    phase = FAILED
    message = "the supervisor failed; see its log"
    try:
        supervisor.start(say_to_parent)
        if outlives_parent:
            outlive_parent()
        close_stdout(supervisor.session.logs / "supervisor.log")
        supervisor.watch()
    except StopSignal as stopped:
        phase = STOPPED
        message = f"stopped by {stopped}"
    except Exception as error:
        message = str(error) or type(error).__name__
        print(f"{type(error).__name__}: {message}", file=sys.stderr, flush=True)
    finally:
        supervisor.stop(phase, message)
    if phase == STOPPED:
        return 0
    return 1


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="railhead.local.supervisor", description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--binaries", type=Path, required=True)
    parser.add_argument("--cpus", type=int, required=True)
    parser.add_argument("--memory", type=int, required=True)
    parser.add_argument("--gpus", type=int, required=True)
    parser.add_argument("--outlive-parent", action="store_true", help="once everything is ready")
    parser.add_argument("--without-operator", action="store_true")
    parser.add_argument("--gang", action="store_true")
    options = parser.parse_args(arguments)
    session = Session(options.folder)
    with session.lock.open("w") as lock:
        if not try_lock(lock):
            print(f"another session is up in {session.folder}", file=sys.stderr)
            return 1
        # What a crashed session of this folder left behind.
        session.end_left()
        prepare(session, binaries=options.binaries)
        capacity = Capacity(options.cpus, options.memory, options.gpus)
        supervisor = Supervisor(
            session,
            binaries=options.binaries,
            capacity=capacity,
            has_operator=not options.without_operator,
            has_gangs=options.gang,
        )
        return run(supervisor, outlives_parent=options.outlive_parent)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
