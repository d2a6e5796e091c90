"""Where the ranks of a job are: the pod of one rank, and the stacks of all ranks by a command in the head pod.

Each rank marks the beginning of its output in a file of its pod, whose name ends with its pid.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter

from railhead.api import names
from railhead.client.cluster.child_process import parse_answer
from railhead.client.cluster.connection import Cluster
from railhead.client.cluster.kubectl import ask_pod, build_exec, find_pods
from railhead.client.exit_codes import ClientError
from railhead.contract import environment
from railhead.contract.text import write_ranks

AT_ONCE = 16
# The mark is that near to the beginning of the file.
MARK_BYTES = 65536
Ask = Callable[[str, Sequence[str]], Awaitable[str]]
QUESTION = ("sh", "-c", f'exec python3 -I -S "${environment.BUNDLE}" stacks')
OLD_DRIVER = "unknown role"
SILENT = "does not respond: native code holds the GIL, or the process is stopped"


def build_question(rank: int) -> list[str]:
    """Returns the command that prints the pid of the rank, if it runs in the pod, and nothing otherwise."""
    return [
        "sh",
        "-c",
        f'for f in "${environment.TEMP}"/session_2*/logs/worker-*.out; do head -c {MARK_BYTES} "$f" 2>/dev/null '
        f'| grep -qa ":railhead-mark:begin:{rank}:" || continue; p=${{f##*-}}; p=${{p%.out}}; '
        '[ -d "/proc/$p" ] && echo "$p" && exit 0; done; exit 0',
    ]


async def find_rank(rank: int, pods: Sequence[str], ask: Ask) -> str | None:
    """Returns the pod in which the rank runs; `ask` runs a command in a pod and returns its output.

    Raises:
        ClientError: that of `ask` about a pod which did not respond, if no other pod has the rank.
    """
    limit = asyncio.Semaphore(AT_ONCE)

    async def find_in(pod: str) -> str | None:
        async with limit:
            if (await ask(pod, build_question(rank))).strip().isdigit():
                return pod
            return None

    tasks = [asyncio.ensure_future(find_in(pod)) for pod in pods]
    failure: ClientError | None = None
    try:
        for task in asyncio.as_completed(tasks):
            try:
                pod = await task
            except ClientError as error:
                failure = error
                continue
            if pod is not None:
                return pod
    finally:
        for each in tasks:
            each.cancel()
    if failure is not None:
        raise failure
    return None


@dataclass(frozen=True)
class RankStack:
    """One rank. Its pod, place and text are empty if it does not respond.

    Attributes:
        place: the innermost line of the user's code, such as "at train.py:41 in load, inside pyarrow".
        text: the stacks of its threads, the training one first.
    """

    rank: int
    pod: str
    place: str
    text: str


async def collect_stacks(cluster: Cluster, name: str) -> list[RankStack]:
    """Returns the stacks of all ranks.

    Raises:
        ClientError: there is no kubectl, the job has no head pod, no rank trains, or another command collects them now.
    """
    base = build_exec(cluster)
    head, *_ = await find_pods(cluster, name, names.HEAD)
    try:
        return parse_stacks(await ask_pod(base, head, QUESTION), head)
    except ClientError as error:
        if OLD_DRIVER in str(error):
            message = f"{name} runs since an older Railhead, without this command; its next attempt will have it"
            raise ClientError(message) from None
        raise


def parse_stacks(output: str, pod: str) -> list[RankStack]:
    """Returns what the pod has printed, which may be anything. Raises ClientError."""
    found = parse_answer(list[RankStack], output, f"pod {pod} did not return a list of stacks")
    return sorted(found, key=attrgetter("rank"))


def group_stacks(stacks: Sequence[RankStack]) -> list[tuple[str, str]]:
    """Returns the ranks and the text of each distinct stack, the smallest group first: the others often wait for it."""
    same: dict[tuple[str, str], list[RankStack]] = defaultdict(list)
    for each in stacks:
        same[each.place, each.text].append(each)
    groups = sorted((len(ranks), ranks[0].rank, place, text) for (place, text), ranks in same.items())
    return [(f"{_name(same[place, text])}: {place or SILENT}", text) for _, _, place, text in groups]


def _name(ranks: Sequence[RankStack]) -> str:
    text = write_ranks(each.rank for each in ranks)
    if len(ranks) == 1 and ranks[0].pod:
        return f"{text} (pod {ranks[0].pod})"
    return text
