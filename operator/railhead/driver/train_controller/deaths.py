"""Why a rank's process died: what it wrote last, and whether the kernel killed a process of its pod for memory.

Ray reports only that it is gone. A short task on its node reads the end of its standard error, where faulthandler
names the signal, and the counter of the pod's cgroup.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from railhead.contract import environment as e
from railhead.contract.outcome import shorten_middle
from railhead.driver.node.memory import read_memory
from railhead.driver.train_controller import failure
from railhead.driver.train_controller.failure import RankError
from railhead.driver.train_controller.group import Process
from railhead.driver.train_controller.hardware import find_hardware_kind

ASKED = 4  # of the ranks that died: the others usually follow
ANSWER_TIMEOUT = 10.0  # seconds, for all of them
TAIL_BYTES, QUOTED_CHARS = 8192, 300
# Words of faulthandler and of the C++ runtime; what follows is a stack.
_LAST_WORDS = re.compile(
    r"^(Fatal Python error: .*|terminate called .*|  what\(\): .*|.*Watchdog caught .*)$", re.MULTILINE
)


@dataclass(frozen=True)
class Death:
    """`words`: the last ones of its standard error; `oom_kills`, `limit` (bytes): of its pod, for its memory."""

    words: str = ""
    oom_kills: int = 0
    limit: int = 0


_seen: dict[str, int] = {}  # Ray's node id -> oom_kills when a death there was explained last


def explain_deaths(errors: tuple[RankError, ...], processes: Mapping[int, Process]) -> tuple[RankError, ...]:
    """The errors, those of ranks that died with their causes as far as they can be found. Never raises."""
    died = [each.rank for each in errors if each.kind == failure.DIED and each.rank in processes][:ASKED]
    deaths = find_deaths({rank: processes[rank] for rank in died}) if died else {}
    explained = tuple(
        explain_death(each, deaths[each.rank], before=_seen.get(processes[each.rank].node, 0))
        if each.rank in deaths
        else each
        for each in errors
    )
    _seen.update({processes[rank].node: death.oom_kills for rank, death in deaths.items()})
    return explained


def explain_death(error: RankError, death: Death, *, before: int) -> RankError:
    """`before`: the pod's oom_kills that explained an earlier death."""
    if death.oom_kills > before:
        limit = f" of {death.limit / 2**30:.3g}Gi" if death.limit else ""
        text = (
            f"the kernel killed its process for the memory limit{limit} of pod {error.pod or 'of the rank'}; raise "
            "spec.scaling.resourcesPerWorker.memory, which can change while the job is suspended"
        )
        return replace(error, kind=failure.KILLED_FOR_MEMORY, text=text)
    if not death.words:
        return error
    return replace(error, kind=find_hardware_kind(death.words) or error.kind, text=f"{death.words} ({error.text})")


def find_deaths(processes: Mapping[int, Process]) -> dict[int, Death]:
    """By rank, of those whose node answers in time."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    import ray

    deaths: dict[int, Death] = {}
    with contextlib.suppress(Exception):  # a node that has just left
        task = ray.remote(num_cpus=0, max_retries=0)(read_death)
        asked = {
            task.options(scheduling_strategy=NodeAffinitySchedulingStrategy(each.node, soft=False)).remote(
                each.pid
            ): rank
            for rank, each in processes.items()
        }
        ready, _ = ray.wait(list(asked), num_returns=len(asked), timeout=ANSWER_TIMEOUT)
        for reference in ready:
            with contextlib.suppress(Exception):
                deaths[asked[reference]] = ray.get(reference)
    return deaths


def read_death(pid: int) -> Death:
    """On the node of a process that is gone."""
    logs = Path(os.environ[e.TEMP]).glob(f"session_2*/logs/worker-*-{pid}.err")
    words = next((find_last_words(read_tail(log)) for log in logs), "")
    kills, limit = read_memory()
    return Death(words, kills - int(os.environ.get(e.OOM_KILLS) or 0), limit)


def read_tail(log: Path) -> str:
    with log.open("rb") as file:
        file.seek(max(log.stat().st_size - TAIL_BYTES, 0))
        return file.read().decode(errors="replace")


def find_last_words(text: str) -> str:
    """What its runtime said of its end; empty if nothing."""
    found = [match.strip() for match in _LAST_WORDS.findall(text)]
    return shorten_middle("; ".join(found[-3:]), QUOTED_CHARS)
