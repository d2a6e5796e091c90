"""`railhead logs --follow` on a real kubelet, while a worker pod is killed and replaced."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from threading import Thread

import pytest

from tests.e2e.cluster import PATIENCE, Cluster, wait_until
from tests.e2e.command_line import CommandLine
from tests.e2e.jobs import make_job, with_config

pytestmark = [pytest.mark.slow, pytest.mark.reading]
JOB = "follow"
TICKS = 400
# Each line names the pod and the process that printed it, and its number there.
TICKING = """
import os, socket, time
import ray.train


def train_func(config):
    for number in range(config["ticks"]):
        print(f"tick {socket.gethostname()} {os.getpid()} {number}", flush=True)
        time.sleep(0.05)
        if number % 20 == 0:
            ray.train.report({"number": number})
"""
LINE = re.compile(r"\[(head|w\d+)\] .*tick (\S+) (\d+) (\d+)\n")


def test_a_run_is_read_live_each_line_once_while_a_worker_is_replaced(cluster: Cluster, tmp_path: Path) -> None:
    if cluster.is_local:
        pytest.skip("it is about a kubelet's logs; the part `node` of tools/all_tests.py runs it on a real node")
    cluster.apply(with_config(make_job(JOB, cluster.image, code=TICKING), ticks=TICKS))
    lines: list[str] = []
    with CommandLine(cluster, tmp_path).start("logs", JOB, "--all", "-f") as process:
        assert process.stdout and process.stderr
        reader = Thread(target=lines.extend, args=(process.stdout,))
        reader.start()
        is_printing = lambda: any(re.match(r"\[w1\] .* 50\n", line) for line in lines)  # noqa: E731
        wait_until("lines of the second worker", is_printing, tell=lambda: cluster.tell(JOB))
        [lost] = [name for name in cluster.pod_names(JOB) if "-w1-" in name]
        cluster("delete", "pod", lost, "--grace-period=0", "--force")
        cluster.wait_end(JOB)
        assert process.wait(timeout=PATIENCE) == 0, process.stderr.read()
        reader.join(timeout=PATIENCE)

    found: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    for line in lines:
        match = LINE.fullmatch(line)
        if match:
            found[match[1], match[2], match[3]].append(int(match[4]))
    workers = {key: numbers for key, numbers in found.items() if key[0] != "head"}
    for (prefix, pod, _), numbers in workers.items():
        assert f"-{prefix}-" in pod, "the prefix is that of the pod that printed the line"
        assert numbers == list(range(len(numbers))), "no line twice, none left out"
    for numbers in found.values():
        assert len(set(numbers)) == len(numbers)
    assert {pod for _, pod, _ in workers} > {lost}, "the lines of the lost pod and of the one in its place"
    assert sorted(map(len, workers.values()))[-2:] == [TICKS, TICKS], "both ranks of the last group, to the end"
    cluster.delete_job(JOB)
