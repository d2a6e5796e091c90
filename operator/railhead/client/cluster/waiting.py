"""Waits until a job has reached a state. The decision is a pure function of the job."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from railhead.api import conditions as types
from railhead.api.status import parse_status
from railhead.client.cluster.connection import Cluster
from railhead.client.exit_codes import ClientError, ExitCode
from railhead.client.goals import Goal
from railhead.contract.callbacks import ignore
from railhead.json_object import Object
from railhead.together import run_together


@dataclass(frozen=True)
class Ending:
    """The end of waiting.

    Attributes:
        is_reached: whether the job is in the state; otherwise it never will be.
        message: a sentence.
    """

    is_reached: bool
    message: str


def decide(job: Object, goal: Goal) -> Ending | None:
    """Returns the end of waiting for the goal, None while it may still come."""
    status = parse_status(job.get("status"))
    name = str(job["metadata"]["name"])
    reached: dict[Goal, bool] = {
        "finished": status.is_finished,
        "succeeded": status.has_condition(types.COMPLETE),
        "failed": status.has_condition(types.FAILED),
        "running": status.has_condition(types.RUNNING),
        "suspended": status.has_condition(types.SUSPENDED),
        "checkpoint": status.checkpoint is not None,
    }
    end = f"{name}: {status.phase}"
    failure = status.failure
    if failure is not None and status.has_condition(types.FAILED):
        end += f": {failure.class_}, {failure.reason}: {failure.message}"
    if status.checkpoint is not None and goal == "checkpoint":
        end = f"{name}: checkpoint {status.checkpoint.index}"
    if reached[goal]:
        return Ending(goal != "finished" or status.has_condition(types.COMPLETE), end)
    if status.is_finished:
        return Ending(False, end)
    return None


async def wait_for(
    cluster: Cluster, name: str, goal: Goal, *, timeout: float | None, echo: Callable[[str], None] = ignore
) -> Ending:
    """Waits, and echoes each change of the phase. An interruption leaves the job alone.

    Raises:
        ClientError: there is no such job, or the timeout in seconds has passed.
    """
    job = await cluster.get_job(name)
    uid = job["metadata"]["uid"]
    ending: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()
    phase = ""

    def on_change(_: Object | None, new: Object | None) -> None:
        nonlocal phase
        if ending.done():
            return
        if new is None or new["metadata"]["uid"] != uid:
            ending.set_result(Ending(False, f"{name} was deleted"))
            return
        status = parse_status(new.get("status"))
        if status.phase != phase:
            phase = status.phase
            echo(f"{name}: {phase}")
        end = decide(new, goal)
        if end is not None:
            ending.set_result(end)

    try:
        async with asyncio.timeout(timeout):
            # A watch ends only with an error.
            await run_together(cluster.watch_job(job, on_change), ending)
    except TimeoutError:
        message = f"{name} is not {goal} after {timeout:g} s (phase {phase or 'none'}); run `railhead why {name}`"
        raise ClientError(message, ExitCode.TIMED_OUT) from None
    return ending.result()
