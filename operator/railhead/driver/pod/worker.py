"""A worker pod: runs a Ray node as a child process and copies its ranks' output to ours, until Ray exits.

Forwards SIGTERM to Ray, which announces that the node is leaving and exits once nothing runs on it
any more or after worker.drainSeconds. If the head is gone there is nothing to train for,
and Ray is killed at once.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from typing import Mapping, NoReturn

from railhead.contract import environment
from railhead.contract.callbacks import ignore
from railhead.contract.outcome import LIMIT_BYTES
from railhead.driver.archive.archive_layout import WORKER
from railhead.driver.archive.pod_archive import start_archive
from railhead.driver.container.gpu_count import begin_count_of_gpus
from railhead.driver.container.hosts import is_listening, wait_for_address, write_address
from railhead.driver.container.packages import find_version
from railhead.driver.container.pod_input import Pod, read_working_folder
from railhead.driver.container.pod_processes import exit_at_sigterm, read_end, start_child
from railhead.driver.container.session_logs import TRAIN_LOGS, keep_small
from railhead.driver.messages.log import log
from railhead.driver.messages.redaction import redact
from railhead.driver.pod.ending import write_termination_message
from railhead.driver.pod.rank_output import LogTail
from railhead.driver.pod.ray_start import build_ray_environment, build_worker_command
from railhead.driver.ray.daemons import ONLY_RANK_0
from railhead.driver.ray.supported_versions import drop_unsupported_defaults

LOOK_SECONDS = 0.25
RAY_LOG = "ray-start.log"


def run_worker(variables: Mapping[str, str]) -> NoReturn:
    # Before Ray starts there is nothing to stop.
    exit_at_sigterm()
    pod = Pod.from_environment(variables)
    job = drop_unsupported_defaults(find_version(), pod.read_job())
    ray_variables = build_ray_environment(variables, job=job, pod=pod, folder=read_working_folder())
    if job.forward_logs == "Rank0":
        ray_variables[ONLY_RANK_0] = "1"
    pod.temp.mkdir(parents=True, exist_ok=True)
    count_gpus = begin_count_of_gpus() if job.scaling.use_gpu else ignore
    address = wait_for_address(pod.head_host, own=pod.ip, hosts_file=variables.get(environment.HOSTS_FILE))
    log(f"joining Ray's head at {write_address(address, pod.head_port)}")
    command = build_worker_command(pod, job, head_address=address)
    ray_variables[environment.GPUS] = str(count_gpus() or 0)
    ray = start_child(command, environment=ray_variables, log=pod.temp / RAY_LOG)

    signals = []

    def forward_sigterm(*_: object) -> None:
        signals.append(True)
        if is_listening(address, pod.head_port, timeout=0.5):
            if job.drain_seconds:
                log(f"received SIGTERM: training continues for up to {job.drain_seconds} s (worker.drainSeconds)")
            ray.terminate()
        else:
            ray.kill()

    signal.signal(signal.SIGTERM, forward_sigterm)
    threading.Thread(target=keep_small, args=(pod.temp, TRAIN_LOGS), daemon=True).start()
    archive = start_archive(WORKER, pod, job, variables)
    tail = LogTail(pod.temp, keep=archive.add_of_rank, on_end=archive.upload_soon)
    while ray.poll() is None:
        tail.poll()
        time.sleep(LOOK_SECONDS)
    while tail.poll():
        pass
    news = f"the Ray node exited with code {ray.returncode}"
    log(news)
    archive.add(WORKER, news)
    if ray.returncode > 0 and not signals:
        text = redact(read_end(pod.temp / RAY_LOG))
        print(text, flush=True)
        archive.add(WORKER, text)
        write_termination_message(text[-LIMIT_BYTES // 2 :], pod.termination_message)
    archive.finish()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(ray.returncode if ray.returncode >= 0 else 128 - ray.returncode)
