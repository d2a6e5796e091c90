"""Scenarios of a job, each with its documented outcome."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from railhead.api import names
from railhead.contract.failure import FailureClass
from tests.model.api_server import Place
from tests.model.play import Act, Scenario, committed
from tests.model.world import World, name_of
from tests.unit.builders import NOW


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


def is_replaced(world: World) -> bool:
    """A worker pod of a later round runs."""
    later = [p for p in world.pods(names.WORKER) if p["metadata"]["labels"][names.LABEL_ROUND] != "0"]
    return any(pod["status"].get("phase") == "Running" for pod in later)


def kill_for_memory(round_: int) -> Act:
    """Worker 1 of this round, as soon as it runs."""

    def find(world: World) -> list[str]:
        wanted = {names.LABEL_ATTEMPT: "1", names.LABEL_SLOT: "1", names.LABEL_ROUND: str(round_)}
        pods = (p for p in world.pods(names.WORKER) if p["status"].get("phase") == "Running")
        return [name_of(p) for p in pods if wanted.items() <= p["metadata"]["labels"].items()]

    return Act(lambda world: bool(find(world)), lambda world: world.kill_for_memory(find(world)[0]))


def has_succeeded(world: World) -> bool:
    return world.status().get("phase") == "Succeeded"


def restart_in_place(world: World, cause: FailureClass) -> None:
    assert world.restart_in_place(cause)


def cut_off_all(world: World) -> None:
    for pod in world.pods():
        world.cut_off(name_of(pod))


def is_suspended(world: World) -> bool:
    return bool(world.status().get("phase") == "Suspended")


def is_resumed(world: World) -> bool:
    return world.status().get("phase") == "Running" and world.status()["attempt"] == 2


def cut_off_and_suspend(world: World) -> None:
    world.cut_off(worker(world, 1))
    world.change(suspend=True)


def let_old_head_continue(world: World) -> None:
    """For one more epoch; then its node is removed."""
    world.tick(60)
    world.step()
    world.remove_nodes()


def let_head_vanish(world: World) -> None:
    world.is_head_vanishing = True


def lift_quota(world: World) -> None:
    world.quota = None


def delete_held(world: World) -> None:
    world.hold("example.com/backup")
    world.delete_job()


def rests(world: World) -> bool:
    return world.status().get("phase") == "Suspended" and not world.pods()


def lose_worker_and_room(world: World) -> None:
    """Another workload takes its place."""
    world.quota = 2
    world.remove_pod(worker(world, 1))


def change_input(world: World) -> None:
    world.change(suspend=False, trainer={"trainLoopConfig": {"epochs": 7}})


def suspend_and_resume(*changes: Callable[[World], None]) -> tuple[Act, ...]:
    """The changes are made while the job is suspended; the last one resumes it."""
    return (
        Act(committed(2), lambda world: world.change(suspend=True)),
        *(Act(is_suspended, change) for change in changes),
    )


COSCHEDULING = {"scheduling": {"gangScheduler": "Coscheduling"}}
# In each of them an attempt begins with other objects than the one before it, which nobody needs any more.
CHANGED = (
    Scenario("suspended, changed in its input and resumed", suspend_and_resume(change_input)),
    Scenario(
        "suspended, upgraded and resumed",
        suspend_and_resume(World.upgrade, lambda w: w.change(suspend=False)),
    ),
    Scenario(
        "suspended, changed in its gang scheduler and resumed",
        suspend_and_resume(lambda w: w.change(suspend=False, scheduling={"gangScheduler": "Volcano"})),
        spec=COSCHEDULING,
    ),
    Scenario(
        "a gang, then head gone",
        (Act(committed(2), lambda w: w.remove_pod(w.live_heads[0]["metadata"]["name"])),),
        spec=COSCHEDULING,
        restarts={"application": 0, "infrastructure": 1},
    ),
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
        "application errors that the failure policy ignores",
        (
            end_head("Application"),
            Act(lambda w: len(w.starts) == 2, lambda w: w.end_pod(w.live_heads[0], "Application")),
        ),
        spec={
            "backoffLimit": 0,
            "failurePolicy": {"rules": [{"action": "RestartAndIgnore", "onClass": ["Application"]}]},
        },
        restarts={"application": 2, "infrastructure": 0, "withoutProgress": 0},
    ),
    Scenario(
        "restarts in place, then an attempt lost",
        (
            Act(committed(1), lambda w: restart_in_place(w, FailureClass.APPLICATION)),
            Act(committed(2), lambda w: restart_in_place(w, FailureClass.HANG)),
            Act(committed(3), lambda w: w.end_pod(w.live_heads[0], "Application")),
            Act(lambda w: len(w.starts) == 4, lambda w: restart_in_place(w, FailureClass.OUT_OF_MEMORY)),
        ),
        spec={"backoffLimit": 3},
        restarts={"application": 1, "inPlace": 3},
        starts=5,
    ),
    Scenario(
        "restarts in place that spend the budget",
        (
            Act(committed(1), lambda w: restart_in_place(w, FailureClass.APPLICATION)),
            Act(committed(2), lambda w: w.end_pod(w.live_heads[0], "Application")),
        ),
        spec={"backoffLimit": 1},
        phase="Failed",
        restarts={"application": 0, "inPlace": 1},
    ),
    Scenario("hang", (end_head("Hang"),), restarts={"application": 0, "infrastructure": 1, "withoutProgress": 1}),
    Scenario(
        "hangs at each start",
        (
            Act(lambda w: len(w.starts) == 1, lambda w: w.end_pod(w.live_heads[0], "Hang")),
            Act(lambda w: len(w.starts) == 2, lambda w: w.end_pod(w.live_heads[0], "Hang")),
        ),
        spec={"noProgressLimit": 1},
        phase="Failed",
        restarts={"application": 0, "infrastructure": 1, "withoutProgress": 1},
    ),
    Scenario(
        "head gone",
        (Act(committed(2), lambda w: w.remove_pod(w.live_heads[0]["metadata"]["name"])),),
        restarts={"application": 0, "infrastructure": 1},
    ),
    Scenario(
        "head gone after its last report",
        (Act(committed(2), let_head_vanish),),
        restarts={"application": 0, "infrastructure": 0},
        starts=1,
    ),
    Scenario(
        "upgraded, then worker gone, then head gone",
        (
            Act(committed(1), World.upgrade),
            Act(committed(2), lambda w: w.remove_pod(worker(w, 1))),
            Act(committed(4), lambda w: w.remove_pod(w.live_heads[0]["metadata"]["name"])),
        ),
        restarts={"application": 0, "infrastructure": 2},
    ),
    Scenario("upgraded, then finished", (Act(committed(1), World.upgrade),), restarts={"infrastructure": 0}),
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
        "worker's node is unreachable, and only the driver knows",
        (
            Act(committed(2), lambda w: w.silence(worker(w, 1))),
            Act(is_replaced, lambda w: w.remove_nodes()),
        ),
        spec={"backoffLimit": 0, "noProgressLimit": 0},
        restarts={"application": 0, "infrastructure": 1, "disruptions": 1},
        starts=2,
    ),
    Scenario(
        "disrupted three times without any budget",
        (
            Act(committed(1), lambda w: w.evict_pod(w.live_heads[0]["metadata"]["name"])),
            Act(lambda w: len(w.starts) == 2 and committed(2)(w), lambda w: w.evict_pod(worker(w, 0))),
            Act(is_replaced, lambda w: w.remove_pod(w.live_heads[0]["metadata"]["name"])),
        ),
        spec={"backoffLimit": 0, "noProgressLimit": 0, "disruptionLimit": 3},
        restarts={"application": 0, "infrastructure": 3, "withoutProgress": 0, "disruptions": 3},
    ),
    Scenario(
        "worker OOM-killed in each round",
        (kill_for_memory(0), kill_for_memory(1), kill_for_memory(2)),
        restarts={"application": 1, "infrastructure": 2, "withoutProgress": 0},
    ),
    Scenario(
        "worker drained, then head gone",
        (
            Act(committed(1), lambda w: w.evict_pod(worker(w, 0))),
            Act(is_replaced, lambda w: w.remove_pod(w.live_heads[0]["metadata"]["name"])),
        ),
        restarts={"application": 0, "infrastructure": 2},
    ),
    Scenario(
        "suspended and resumed",
        (
            Act(committed(2), lambda w: w.change(suspend=True)),
            Act(is_suspended, lambda w: w.change(suspend=False)),
        ),
        restarts={"application": 0, "infrastructure": 0, "withoutProgress": 0},
    ),
    Scenario(
        "suspended, changed and resumed",
        (
            Act(committed(2), lambda w: w.change(suspend=True)),
            Act(is_suspended, lambda w: w.change(suspend=False, image="example/train:2")),
            Act(is_resumed, lambda w: w.remove_pod(worker(w, 0))),
        ),
        restarts={"application": 0, "infrastructure": 1},
    ),
    *CHANGED,
    Scenario(
        "created suspended",
        (Act(is_suspended, lambda w: w.change(suspend=False)),),
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
        restarts={"application": 0, "infrastructure": 0, "withoutProgress": 0, "startup": 1, "inPlace": 0},
    ),
    Scenario(
        "quota for some of the pods",
        (Act(lambda w: w.status().get("attempt", 0) == 2, lift_quota),),
        quota=2,
        restarts={"application": 0, "infrastructure": 0, "withoutProgress": 0, "startup": 1, "inPlace": 0},
    ),
    Scenario(
        "quota for none of the pods",
        (Act(lambda w: w.now > NOW + timedelta(seconds=200), lift_quota),),
        quota=0,
        restarts={"application": 0, "infrastructure": 0, "withoutProgress": 0, "startup": 0, "inPlace": 0},
    ),
    Scenario(
        "quota rejects a replacement",
        (
            Act(committed(2), lose_worker_and_room),
            Act(lambda w: w.status().get("attempt", 0) == 2, lift_quota),
        ),
        restarts={"application": 0, "infrastructure": 1, "withoutProgress": 0, "startup": 1, "inPlace": 0},
    ),
    Scenario(
        "head on an unreachable node",
        (
            Act(committed(2), lambda w: w.cut_off(w.live_heads[0]["metadata"]["name"])),
            Act(has_succeeded, World.remove_nodes),
        ),
        restarts={"application": 0, "infrastructure": 1},
    ),
    Scenario(
        "all on an unreachable node",
        (
            Act(committed(2), cut_off_all),
            Act(has_succeeded, let_old_head_continue),
        ),
        restarts={"application": 0, "infrastructure": 1},
        is_fenced=True,
    ),
    Scenario(
        "worker on an unreachable node, then head gone",
        (
            Act(committed(1), lambda w: w.cut_off(worker(w, 0))),
            Act(is_replaced, lambda w: w.remove_pod(w.live_heads[0]["metadata"]["name"])),
            Act(has_succeeded, World.remove_nodes),
        ),
        restarts={"application": 0, "infrastructure": 2},
    ),
    Scenario(
        "suspended despite an unreachable node",
        (
            Act(committed(2), cut_off_and_suspend),
            Act(is_suspended, lambda w: w.change(suspend=False)),
            Act(has_succeeded, World.remove_nodes),
        ),
    ),
    Scenario(
        "worker on a dead node until the node is deleted",
        (
            Act(committed(2), lambda w: w.cut_off(worker(w, 0))),
            Act(lambda w: bool(w.status().get("stuckPods")), World.remove_nodes),
        ),
        restarts={"application": 0, "infrastructure": 1},
    ),
    Scenario("cleaned up", spec={"keepPodsSeconds": 3600}),
    Scenario("failed and cleaned up", (end_head("Configuration"),), spec={"keepPodsSeconds": 0}, phase="Failed"),
    Scenario("deleted by its TTL", spec={"keepPodsSeconds": 60, "ttlSecondsAfterFinished": 3600}),
    Scenario(
        "failed and deleted by its TTL",
        (end_head("Configuration"),),
        spec={"ttlSecondsAfterFinished": 0},
        phase="Failed",
    ),
    Scenario("deleted", (Act(committed(2), World.delete_job),)),
    Scenario("deleted after its children", (Act(committed(2), lambda w: w.delete_job(policy="Foreground")),)),
)

DENIES_DELETES = 'admission webhook "guard.example.com" denied the request: nothing is deleted today'


def deny_removal(world: World) -> None:
    """A webhook denies from now on what the job's change would remove."""

    def judge(method: str, place: Place, subresource: str) -> str:
        is_removal = method == "DELETE" and place[0] in ("configmaps", "podgroups")
        return DENIES_DELETES if is_removal else ""

    world.policies.append(judge)


def reports_denial(world: World) -> bool:
    """The new attempt trains, and the condition names what may not be deleted."""
    found = [each for each in world.status()["conditions"] if each["type"] == "DeleteDenied"]
    return is_resumed(world) and any("-input-" in each["message"] for each in found)


DENIED = Scenario(
    "suspended, changed in its input and resumed, while a webhook denies deletes",
    (
        Act(committed(2), lambda w: w.change(suspend=True)),
        Act(is_suspended, deny_removal),
        Act(is_suspended, change_input),
        Act(reports_denial, lambda w: w.policies.clear()),
    ),
)
# A fault changes how many epochs its driver trains before it is stopped.
HELD = Scenario("deleted and kept by a finalizer", (Act(committed(2), delete_held), Act(rests, World.hold)))
