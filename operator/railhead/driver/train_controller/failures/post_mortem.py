"""After a failure: what the ranks' pods tell of why processes died, and of the collective in which the others hang.

Ray reports only that a process is gone. A short task on each node reads the ends of its ranks' standard errors, where
faulthandler names the signal and torch the collective, how many GPUs answer, and the records of torch's flight
recorder. Out of memory, the kernel ends the entire pod, and the kubelet says why.

After a hang the flight records of all ranks are compared and kept in the run's folder. They are JSON by then: each
rank's own pod has read its pickle (`rank.flight_dump`).
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Optional

from railhead.driver.messages.log import never_raises
from railhead.driver.messages.rank_errors import HANGS
from railhead.driver.rank.flight_recorder import read_own_record
from railhead.driver.rank.pod_report import PodReport, read_pod
from railhead.driver.ray.types import Metadata
from railhead.driver.train_controller.failures import evidence
from railhead.driver.train_controller.failures.classify_failure import RankError
from railhead.driver.train_controller.failures.collectives import CollectiveMismatch, compare_records, parse_record
from railhead.driver.train_controller.failures.flight_records import keep_in_thread
from railhead.driver.train_controller.worker_group import Group, call_ranks

ANSWER_TIMEOUT_SECONDS = 15.0  # for all nodes, or for all ranks that still live


def explain_deaths(
    errors: tuple[RankError, ...], processes: Mapping[int, Metadata], group: Group
) -> tuple[tuple[RankError, ...], Optional[CollectiveMismatch]]:
    """Returns the errors, with those of ranks that died as far as their pods know why.

    After a hang also returns what tells some ranks from the others. Never raises.
    """
    asked = {each.rank: processes[each.rank] for each in errors if each.rank in processes and evidence.is_open(each)}
    reports = ask_pods(asked) if asked else {}
    explained = evidence.explain_errors(errors, reports, has_trained=group.has_trained)
    if not any(each.kind in HANGS for each in explained):
        return explained, None
    return explained, find_difference(_read_records(reports), processes, group)


def _read_records(reports: Mapping[int, PodReport]) -> dict[int, bytes]:
    return {rank: report.record for rank, report in reports.items() if report.record}


def ask_pods(processes: Mapping[int, Metadata]) -> dict[int, PodReport]:
    """Asks for reports by rank, of those whose node answers in time."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    import ray

    nodes: dict[str, dict[int, int]] = defaultdict(dict)
    for rank, each in processes.items():
        nodes[each.node_id][rank] = each.pid
    found: dict[int, PodReport] = {}
    # A node that has just left answers nothing, and the others are asked all the same.
    with contextlib.suppress(Exception):
        task = ray.remote(num_cpus=0, max_retries=0)(read_pod)
        asked = [
            task.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)).remote(pids)
            for node, pids in nodes.items()
        ]
        ready, _ = ray.wait(asked, num_returns=len(asked), timeout=ANSWER_TIMEOUT_SECONDS)
        for reference in ready:
            with contextlib.suppress(Exception):
                found.update(ray.get(reference))
    return found


@never_raises("compare the ranks' collectives")
def find_difference(
    of_dead: Mapping[int, bytes], processes: Mapping[int, Metadata], group: Group
) -> Optional[CollectiveMismatch]:
    """Finds the collective in which ranks differ. `of_dead`: records by rank; all others of the group's ranks are
    asked for theirs. Never raises."""
    records = {**of_dead, **ask_living(processes.keys() - of_dead.keys(), group)}
    left = {rank: each for rank, each in processes.items() if rank not in records}
    records.update(_read_records(ask_pods(left) if left else {}))
    parsed = {rank: parse_record(data) for rank, data in sorted(records.items())}
    finding = compare_records({rank: each for rank, each in parsed.items() if each}, size=len(processes))
    keep_in_thread(records, group, first=finding.ranks if finding else ())
    return finding


def ask_living(ranks: Collection[int], group: Group) -> dict[int, bytes]:
    """Returns the records of those that answer in time."""
    if group.worker_group is None:
        return {}
    answers = call_ranks(group.worker_group, ranks, read_own_record, timeout=ANSWER_TIMEOUT_SECONDS)
    return {rank: answer.value for rank, answer in answers.items() if answer.value}
