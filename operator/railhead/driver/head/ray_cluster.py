"""The driver as a member of the Ray cluster: joins once the head is up, then watches the worker nodes.

It also finds the nodes that lack the GPU type that `scaling.acceleratorType` requests. Ray detects the type of a real
GPU by itself when a node starts, as a resource of the node, and would wait forever for a node with the right type; but
Kubernetes decides which nodes there are.
"""

from __future__ import annotations

import functools
import os
import time
from dataclasses import replace
from typing import Callable, NoReturn, Optional, Sequence

from railhead.contract.failure import Failure
from railhead.contract.job_input import JobInput
from railhead.contract.report import ACCELERATOR_NOT_THERE, Report, RunWarning
from railhead.driver.container.hosts import HEAD_RESOURCE, is_listening, write_address
from railhead.driver.container.pod_input import Pod
from railhead.driver.head.publisher import Publisher
from railhead.driver.messages.attempt_errors import JobRefused
from railhead.driver.messages.log import log
from railhead.driver.ray.types import NodeInfo

OnFatal = Callable[[Failure], None]
# Between two looks at the nodes.
JOINING_SECONDS = 0.5
WATCHING_SECONDS = 5.0
HEAD_LOOK_SECONDS = 0.05
# Begins the name of the resource; RESOURCE_CONSTRAINT_PREFIX in ray.util.accelerators.
ACCELERATOR = "accelerator_type:"


def wait_for_head(pod: Pod) -> None:
    """Blocks until Ray's head listens. The main thread notices when the head fails."""
    while not is_listening(pod.ip, pod.head_port, timeout=1):
        time.sleep(HEAD_LOOK_SECONDS)


def connect(pod: Pod, *, shows_ranks: bool = True) -> None:
    """Joins Ray as a driver, as soon as its head listens."""
    import ray

    wait_for_head(pod)
    # Ray puts the driver's working directory first on the workers' sys.path, where a user's
    # queue.py would break them; the stub adds the real one at the end.
    os.chdir(pod.temp)
    ray.init(
        address=write_address(pod.ip, pod.head_port),
        # Several nodes may run on one machine, and Ray would have to guess which one is ours.
        _node_ip_address=pod.ip,
        log_to_driver=shows_ranks,
        namespace="railhead",
    )
    log("the driver has joined Ray")


def watch_nodes(pod: Pod, job: JobInput, publisher: Publisher, on_fatal: OnFatal) -> None:
    """Reports how many worker pods have joined Ray, while the driver runs, and those with the wrong type of GPU."""
    import ray
    from railhead.driver.ray.nodes import list_lost_nodes

    # An elastic attempt may begin with fewer pods than the most that the job takes.
    wanted = pod.worker_pods or job.worker_pods
    joined: Optional[int] = None
    accelerators = AcceleratorCheck(job, wanted=wanted, has_run=pod.checkpoint_index >= 0)
    while True:
        try:
            nodes = [node for node in ray.nodes() if node["Alive"] and HEAD_RESOURCE not in node["Resources"]]
        except Exception:
            if not ray.is_initialized():
                return
            # Ray's control store has a pause. If it is gone, the main thread knows.
            time.sleep(WATCHING_SECONDS)
            continue
        try:
            accelerators.check(nodes, publisher)
        except JobRefused as error:
            on_fatal(error.failure)
            return
        count = len(nodes)
        # Ray lists a lost node for some ten seconds, next to its replacement.
        if count > wanted:
            count -= len(list_lost_nodes({node["NodeID"] for node in nodes}))
        if count != joined:
            joined = count
            log(f"{count} of {wanted} worker pods have joined")
            publisher.update(functools.partial(replace, joined=count))
        if count >= wanted:
            time.sleep(WATCHING_SECONDS)
        else:
            time.sleep(JOINING_SECONDS)


class AcceleratorCheck:
    """Checks that the nodes have the GPU type that the job requests.

    If no node has it, the job cannot run as specified. If some do, the pods of the others are replaced, each once.
    """

    def __init__(self, job: JobInput, *, wanted: int, has_run: bool) -> None:
        self._job = job
        self._wanted = wanted
        self._has_run = has_run
        self._known: set[str] = set()

    def check(self, nodes: Sequence[NodeInfo], publisher: Publisher) -> None:
        """Reports the pods to be replaced. Raises JobRefused when all nodes are there, and none has the type."""
        wrong = list_wrong_nodes(self._job, nodes)
        # A job that has run somewhere names a type that exists, so a wrong node is that node's problem.
        self._has_run = self._has_run or len(wrong) < len(nodes)
        if not self._has_run:
            if len(nodes) >= max(self._wanted, 1):
                self._refuse(wrong[0])
            return
        if not wrong:
            publisher.forget_warning(ACCELERATOR_NOT_THERE)
        new = [node for node in wrong if node["NodeID"] not in self._known]
        if new:
            self._known.update(node["NodeID"] for node in new)
            self._report(new, publisher)

    def _refuse(self, node: NodeInfo) -> NoReturn:
        advice = (
            "choose nodes with worker.podTemplate.spec.nodeSelector or scaling.rayLabelSelector, or fix "
            "acceleratorType (Ray's names: ray.util.accelerators)"
        )
        raise JobRefused(ACCELERATOR_NOT_THERE, f"{_describe(self._job, node)}; {advice}")

    def _report(self, nodes: Sequence[NodeInfo], publisher: Publisher) -> None:
        """Has the pods of these nodes replaced: a GPU does not answer there, or the node is of another pool."""
        advice = "the pod is replaced. If the same node is chosen again, check its GPU and cordon it"
        messages = [f"{_describe(self._job, node)}; {advice}" for node in nodes]
        # The warning tells the operator that these pods are not out of the driver's reach.
        warning = RunWarning(ACCELERATOR_NOT_THERE, messages[0])
        pods = tuple(str(node["NodeManagerHostname"]) for node in nodes)

        def add_pods(report: Report) -> Report:
            return replace(report, warning=warning, lost_pods=(*pods, *report.lost_pods))

        publisher.update(add_pods)
        for message in messages:
            log(message)


def list_wrong_nodes(job: JobInput, nodes: Sequence[NodeInfo]) -> list[NodeInfo]:
    """Returns the nodes without the GPU type that the job requests; none if it requests no type."""
    wanted = job.scaling.accelerator_type
    if wanted:
        return [node for node in nodes if ACCELERATOR + wanted not in node["Resources"]]
    return []


def _describe(job: JobInput, node: NodeInfo) -> str:
    types = sorted(name.removeprefix(ACCELERATOR) for name in node["Resources"] if name.startswith(ACCELERATOR))
    what = "has no GPU of a type that Ray knows"
    if types:
        what = f"has {' and '.join(types)}"
    where = f"worker pod {node['NodeManagerHostname']} at {node['NodeManagerAddress']}"
    return f"scaling.acceleratorType {job.scaling.accelerator_type}: {where} {what}"
