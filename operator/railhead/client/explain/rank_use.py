"""What each rank of a job does now: its step, its place in the code, its pace, and the use of its GPUs.

The stacks come from the ranks themselves. Ray Train's controller has noted the steps and the use of the GPUs in
the head pod, from the ranks' answers of the last 10 s; only ranks of a job with spec.metrics measure the latter.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from railhead.api import names
from railhead.api.slow_ranks import SlowRankStatus
from railhead.client.cluster.child_process import parse_answer
from railhead.client.cluster.connection import Cluster
from railhead.client.cluster.kubectl import ask_pod, build_exec, find_pods
from railhead.client.exit_codes import ClientError
from railhead.client.explain.ranks import RankStack, collect_stacks
from railhead.client.submit.code_files import format_size
from railhead.contract import environment

# The controller replaces the file of its current fit() every 10 s.
QUESTION = ("sh", "-c", f'cd "${environment.TEMP}" && cat "$(ls -t fit-*.json | head -n 1)"')
SILENT = "does not respond"


@dataclass(frozen=True)
class RankGpu:
    """One GPU of a rank: its number among the rank's own, bytes of its memory, and percent of time in use."""

    rank: int
    number: int
    used: int
    total: int
    percent: int


@dataclass(frozen=True)
class _Heartbeat:
    gpus: tuple[RankGpu, ...] = ()
    rank_steps: tuple[int, ...] = ()


@dataclass(frozen=True)
class _Fit:
    """The part of the controller's file that is of use here."""

    heartbeat: _Heartbeat | None = None


@dataclass(frozen=True)
class RankAnswers:
    """What was found out about all ranks.

    Attributes:
        steps: of each rank, negative if it is not known.
        problems: why a part of it was not, as sentences.
    """

    stacks: tuple[RankStack, ...] = ()
    gpus: tuple[RankGpu, ...] = ()
    steps: tuple[int, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class RankRow:
    """One rank.

    Attributes:
        step: "" = not known.
        place: the innermost line of the user's code, or that it does not respond.
        pace: as a part of the usual one; "" = not known to be slow.
        gpu, memory: use of all of its GPUs, as text; "" = not measured.
    """

    rank: int
    pod: str
    step: str
    place: str
    pace: str
    gpu: str
    memory: str


async def ask_ranks(cluster: Cluster, name: str) -> RankAnswers:
    """Returns the stacks of all ranks, their steps and the use of their GPUs, as far as there is an answer."""
    stacks, noted = await asyncio.gather(
        collect_stacks(cluster, name), collect_notes(cluster, name), return_exceptions=True
    )
    problems = []
    for each in (stacks, noted):
        if isinstance(each, ClientError):
            problems.append(str(each))
        elif isinstance(each, BaseException):
            raise each
    answers = RankAnswers() if isinstance(noted, BaseException) else noted
    found = () if isinstance(stacks, BaseException) else tuple(stacks)
    return replace(answers, stacks=found, problems=tuple(dict.fromkeys(problems)))


async def collect_notes(cluster: Cluster, name: str) -> RankAnswers:
    """Returns the step of each rank and the use of its GPUs, as the head pod has noted them.

    Raises ClientError, as `collect_stacks` does.
    """
    base = build_exec(cluster)
    head, *_ = await find_pods(cluster, name, names.HEAD)
    return parse_notes(await ask_pod(base, head, QUESTION), head)


def parse_notes(output: str, pod: str) -> RankAnswers:
    """Returns what the pod has printed, which may be anything. Raises ClientError."""
    fit = parse_answer(_Fit, output, f"pod {pod} did not tell what the ranks do")
    if fit.heartbeat is None:
        return RankAnswers()
    return RankAnswers(gpus=fit.heartbeat.gpus, steps=fit.heartbeat.rank_steps)


def build_rows(answers: RankAnswers, slow: Sequence[SlowRankStatus]) -> list[RankRow]:
    """Returns a row per rank that anything is known of, in the order of the ranks."""
    stacks = {each.rank: each for each in answers.stacks}
    paces = {each.rank: each for each in slow}
    gpus: dict[int, list[RankGpu]] = {}
    for gpu in answers.gpus:
        gpus.setdefault(gpu.rank, []).append(gpu)
    steps = {rank: str(step) for rank, step in enumerate(answers.steps) if step >= 0}
    ranks = sorted({*stacks, *paces, *gpus, *steps})
    return [_build_row(rank, steps.get(rank, ""), stacks, paces, gpus.get(rank, ())) for rank in ranks]


def _build_row(
    rank: int, step: str, stacks: Mapping[int, RankStack], paces: Mapping[int, SlowRankStatus], gpus: Sequence[RankGpu]
) -> RankRow:
    pod = ""
    place = ""
    pace = ""
    if rank in paces:
        pod = paces[rank].pod or ""
        pace = paces[rank].score or ""
    if rank in stacks:
        pod = stacks[rank].pod or pod
        place = stacks[rank].place or SILENT
    busy = ", ".join(f"{gpu.percent}%" for gpu in gpus)
    memory = ", ".join(f"{format_size(gpu.used)} of {format_size(gpu.total)}" for gpu in gpus)
    return RankRow(rank, pod, step, place, pace, busy, memory)
