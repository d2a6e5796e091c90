"""Ray's dashboard, for spec.ray.dashboard: a process of the head pod, on its loopback, behind the job's token.

`ray start` could start it, too, but then it would wait for it, fail without it, and end Ray's head with it. As a child
of the driver the dashboard delays nothing and ends nothing.
"""

from __future__ import annotations

import ipaddress
import subprocess

from railhead.contract.job_input import DASHBOARD, DASHBOARD_PORT
from railhead.driver.container.pod_input import Pod
from railhead.driver.container.pod_processes import describe_exit
from railhead.driver.messages.exception_text import describe_exception
from railhead.driver.messages.log import log, never_raises

LOOPBACK = "127.0.0.1"


@never_raises("watch Ray's dashboard")
def run_dashboard(pod: Pod) -> None:
    """Starts the dashboard and waits for its end. Call it in a thread of its own, once the driver has joined Ray."""
    from ray._private import utils

    problem = utils.get_dashboard_dependency_error()
    if problem is not None:
        log(
            f"{DASHBOARD} does not run: spec.image lacks packages that it needs ({problem}); install ray[default] in "
            "the image, or remove spec.ray.dashboard. The job continues without it"
        )
        return
    try:
        process = _start(pod)
    except Exception as error:
        log(f"{DASHBOARD} does not run, and the job continues without it: {describe_exception(error)}")
        return
    log(f"{DASHBOARD} runs; `railhead dashboard` opens it")
    code = process.wait()
    log(f"{DASHBOARD} {describe_exit(code)}; the job continues without it")


def choose_host(ip: str) -> str:
    """Returns the loopback address that the dashboard listens on, and nothing else does so at its port.

    The pods of a local cluster share one loopback, where each has an address of its own.
    """
    if ipaddress.ip_address(ip).is_loopback:
        return ip
    return LOOPBACK


def _start(pod: Pod) -> subprocess.Popen[bytes]:
    """Returns the dashboard's process once it serves. Raises what Ray raises if it does not."""
    from ray._private import services, worker

    node = worker.global_worker.node
    _, started = services.start_api_server(
        include_dashboard=True,
        raise_on_failure=True,
        host=choose_host(pod.ip),
        port=DASHBOARD_PORT,
        gcs_address=node.gcs_address,
        cluster_id_hex=node.get_gcs_client().cluster_id.hex(),
        node_ip_address=node.node_ip_address,
        temp_dir=node.get_temp_dir_path(),
        logdir=node.get_logs_dir_path(),
        session_dir=node.get_session_dir_path(),
        # The kernel kills it when this thread ends, which is when the driver ends: it waits for the process.
        fate_share=True,
        stdout_filepath=f"{node.get_logs_dir_path()}/dashboard.out",
        stderr_filepath=f"{node.get_logs_dir_path()}/dashboard.err",
    )
    process: subprocess.Popen[bytes] = started.process
    return process
