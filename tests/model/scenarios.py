"""Lives of a job, each with the outcome that is documented for it."""

from __future__ import annotations

from railhead.api import names
from tests.model.play import Act, Scenario, committed
from tests.model.world import World


def end_head(kind: str) -> Act:
    return Act(committed(2), lambda world: world.end_pod(world.live_heads[0], kind))


def worker(world: World, slot: int) -> str:
    return str(
        next(
            p["metadata"]["name"]
            for p in world.pods(names.WORKER)
            if p["metadata"]["labels"][names.LABEL_SLOT] == str(slot) and not p["metadata"].get("deletionTimestamp")
        )
    )


SCENARIOS = (
    Scenario("clean", restarts={"application": 0, "infrastructure": 0, "withoutProgress": 0}),
    Scenario("application error", (end_head("Application"),), restarts={"application": 1, "infrastructure": 0}),
    Scenario("configuration", (end_head("Configuration"),), phase="Failed", restarts={"application": 0}),
    Scenario(
        "budget spent",
        (
            end_head("Application"),
            Act(lambda w: len(w.starts) == 2, lambda w: w.end_pod(w.live_heads[0], "OutOfMemory")),
        ),
        spec={"backoffLimit": 1},
        phase="Failed",
        restarts={"application": 1, "infrastructure": 0},
    ),
    Scenario(
        "head gone",
        (Act(committed(2), lambda w: w.remove_pod(w.live_heads[0]["metadata"]["name"])),),
        restarts={"application": 0, "infrastructure": 1},
    ),
    Scenario(
        "head drained",
        (Act(committed(2), lambda w: w.evict_pod(w.live_heads[0]["metadata"]["name"])),),
        restarts={"application": 0, "infrastructure": 1},
    ),
    Scenario(
        "worker gone",
        (Act(committed(2), lambda w: w.remove_pod(worker(w, 1))),),
        restarts={"application": 0, "infrastructure": 1},
    ),
    Scenario(
        "worker drained, then head gone",
        (
            Act(committed(1), lambda w: w.evict_pod(worker(w, 0))),
            Act(committed(2), lambda w: w.remove_pod(w.live_heads[0]["metadata"]["name"])),
        ),
        restarts={"application": 0, "infrastructure": 2},
    ),
    Scenario(
        "suspended and resumed",
        (
            Act(committed(2), lambda w: w.change(suspend=True)),
            Act(lambda w: w.status().get("phase") == "Suspended", lambda w: w.change(suspend=False)),
        ),
        restarts={"application": 0, "infrastructure": 0, "withoutProgress": 0},
    ),
    Scenario(
        "created suspended",
        (Act(lambda w: w.status().get("phase") == "Suspended", lambda w: w.change(suspend=False)),),
        spec={"suspend": True},
    ),
    Scenario(
        "out of time",
        spec={"activeDeadlineSeconds": 60},
        full_nodes=frozenset({"node-1"}),
        phase="Failed",
        restarts={"application": 0, "infrastructure": 0},
    ),
    Scenario(
        "no room at the start",
        (Act(lambda w: w.status().get("attempt", 0) == 2, lambda w: w.full_nodes.clear()),),
        spec={"startDeadlineSeconds": 60},
        full_nodes=frozenset({"node-1"}),
        restarts={"application": 0, "infrastructure": 0, "withoutProgress": 0, "startup": 1},
    ),
    Scenario("deleted", (Act(committed(2), World.delete_job),)),
)
