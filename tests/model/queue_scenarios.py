"""Scenarios of a job in a queue of Kueue, each with its documented outcome."""

from __future__ import annotations

from collections.abc import Callable

from railhead.api import names
from tests.kueue.workload import is_true
from tests.model.actors.default_queue import finalize, take
from tests.model.api_server import Object
from tests.model.kueue import NAME, WORKLOADS, ModelKueue
from tests.model.play import Act, Scenario, committed
from tests.model.scenarios import end_head, has_succeeded, worker
from tests.model.world import NODE, World, place_of, role_of

GPUS = 2  # of the queue and of the job
HELD = "Deactivated"
SPEC = {"scheduling": {"queueName": NAME}, "scaling": {"numWorkers": GPUS, "useGPU": True}}


def kueue_of(world: World) -> ModelKueue:
    assert world.kueue is not None
    return world.kueue


def job_of(world: World) -> Object:
    job = world.job()
    assert job is not None
    return job


def on_queue(do: Callable[[ModelKueue], None]) -> Callable[[World], None]:
    return lambda world: do(kueue_of(world))


def is_waiting(world: World, reason: str = "") -> bool:
    """Whether the job is Queued for this reason, or for any."""
    status = world.status()
    found = {each["reason"] for each in status.get("conditions") or () if each["type"] == "Suspended"}
    return status.get("phase") == "Queued" and (not reason or reason in found)


def is_suspended(world: World) -> bool:
    return world.status().get("phase") == "Suspended"


def has_workload(world: World) -> bool:
    return kueue_of(world).find(job_of(world)) is not None


def asks_for_nothing(world: World) -> bool:
    """Whether a suspended job has no Workload any more. One that is resumed before that keeps its own."""
    return is_suspended(world) and not has_workload(world)


def is_evicted(world: World) -> bool:
    workload = kueue_of(world).find(job_of(world))
    return workload is not None and is_true(workload, "Evicted")


def hold(world: World) -> None:
    kueue_of(world).hold(job_of(world))


def lift_hold(world: World) -> None:
    kueue_of(world).lift_hold(job_of(world))


def delete_workload(world: World) -> None:
    kueue_of(world).delete_workload(job_of(world))


def preempt(world: World) -> None:
    kueue_of(world).compete(gpus=GPUS, priority=1000)


def is_passed(world: World) -> bool:
    """Whether the rival has the quota of a job that waits."""
    return is_waiting(world) and kueue_of(world).is_rival_admitted()


def suspend(world: World) -> None:
    world.change(suspend=True)


def resume(world: World) -> None:
    world.change(suspend=False)


def evict_and_delete(world: World) -> None:
    kueue_of(world).stop()
    world.step()
    world.delete_job()


def cut_off_and_delete(world: World) -> None:
    world.cut_off(worker(world, 0))
    world.delete_job()


def has_given_quota_back(world: World) -> bool:
    return not any(kind == WORKLOADS for kind, _, _ in world.api.objects)


def has_pods(world: World) -> bool:
    return bool(world.pods())


def yield_with_room(world: World) -> None:
    kueue_of(world).yield_quota()
    world.full_nodes.clear()


def is_held(world: World) -> bool:
    return is_waiting(world, HELD)


def is_suspending(world: World) -> bool:
    return world.status().get("phase") == "Suspending"


def is_created(world: World) -> bool:
    return True


def misses_kueue(world: World) -> bool:
    return kueue_of(world).is_missing() and is_waiting(world, "QueueMissing")


def install_and_restart(world: World) -> None:
    kueue_of(world).install_again()
    kueue_of(world).restart()


def restart_and_resume(world: World) -> None:
    kueue_of(world).restart()
    resume(world)


def refuse_worker(world: World) -> None:
    """A kubelet has restarted, and from now on refuses the pod that ran there and all others."""
    pod = world.find_pod(worker(world, 0))
    assert pod is not None
    node = pod["spec"]["nodeName"]

    def admit(pod: Object) -> bool:
        if pod["spec"]["nodeName"] != node or role_of(pod) != names.WORKER:
            return True
        status = {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "no healthy devices present"}
        world.api.patch(place_of(pod), {"status": {**status, "containerStatuses": None}}, subresource="status")
        return False

    world.kubelets.append(admit)
    admit(pod)


def take_pods(world: World) -> None:
    """The namespace has a LocalQueue named default, for which Kueue takes the pods."""
    world.mutations.append(take)


def are_pods_taken(world: World) -> bool:
    conditions = world.status().get("conditions") or ()
    return any((each["type"], each["reason"]) == ("Reconciling", "HeldByKueue") for each in conditions)


def leave_pods_and_suspend(world: World) -> None:
    """What the condition asks for. Kueue's finalizer stays for longer than the job waits."""
    world.mutations.remove(take)
    suspend(world)


def finalize_and_resume(world: World) -> None:
    for pod in world.pods():
        finalize(world, pod)
    resume(world)


DELETE_DEFINITIONS, INSTALL_AGAIN = on_queue(ModelKueue.delete_definitions), on_queue(ModelKueue.install_again)
STOP, RESTART = on_queue(ModelKueue.stop), on_queue(ModelKueue.restart)
YIELD = on_queue(ModelKueue.yield_quota)


def queued(
    name: str,
    *acts: Act,
    phase: str = "Succeeded",
    restarts: dict[str, int] | None = None,
    full_nodes: frozenset[str] = frozenset(),
    nodes: int = 0,
) -> Scenario:
    return Scenario(
        f"queue: {name}",
        acts,
        spec=SPEC,
        phase=phase,
        restarts=restarts or {},
        full_nodes=full_nodes,
        gpus=GPUS,
        nodes=nodes,
    )


QUEUED = (
    queued("admitted at once", restarts={"application": 0, "infrastructure": 0}),
    queued("waits for another owner's quota", Act(is_created, preempt), Act(is_passed, YIELD)),
    queued("preempted", Act(committed(2), preempt), Act(is_passed, YIELD), restarts={"infrastructure": 0}),
    queued(
        "preempted before it starts",
        Act(has_pods, preempt),
        Act(is_passed, yield_with_room),
        full_nodes=frozenset({NODE}),
    ),
    queued("stopped and restarted", Act(committed(2), STOP), Act(is_waiting, RESTART), restarts={"infrastructure": 0}),
    queued("restarted while the job saves", Act(committed(2), STOP), Act(is_evicted, RESTART)),
    queued("held by an administrator", Act(committed(2), hold), Act(is_held, lift_hold)),
    queued("held before it is admitted", Act(has_workload, hold), Act(is_held, lift_hold)),
    queued(
        "held, and suspended and resumed by a user",
        Act(committed(2), hold),
        Act(is_held, suspend),
        Act(is_suspended, resume),
        Act(is_held, lift_hold),
    ),
    queued(
        "suspended, then held, then resumed",
        Act(committed(2), suspend),
        Act(is_suspending, hold),
        Act(is_suspended, resume),
        Act(is_held, lift_hold),
    ),
    queued("suspended and resumed", Act(committed(2), suspend), Act(asks_for_nothing, resume)),
    queued(
        "suspended while it waits",
        Act(is_created, STOP),
        Act(is_waiting, suspend),
        Act(asks_for_nothing, restart_and_resume),
    ),
    queued("Workload deleted while it trains", Act(committed(2), delete_workload)),
    queued("Workload deleted while it waits", Act(has_workload, delete_workload)),
    queued(
        "Kueue's definitions deleted while it trains",
        Act(committed(2), DELETE_DEFINITIONS),
        Act(misses_kueue, INSTALL_AGAIN),
    ),
    queued(
        "Kueue's definitions deleted while it waits",
        Act(is_created, STOP),
        Act(has_workload, DELETE_DEFINITIONS),
        Act(misses_kueue, install_and_restart),
    ),
    queued(
        "its pods are taken for another queue",
        Act(is_created, take_pods),
        Act(are_pods_taken, leave_pods_and_suspend),
        Act(asks_for_nothing, finalize_and_resume),
        restarts={"infrastructure": 0},
    ),
    queued("an application error", end_head("Application"), restarts={"application": 1}),
    queued(
        "a worker that is lost",
        Act(committed(2), lambda w: w.remove_pod(worker(w, 0))),
        restarts={"application": 0, "infrastructure": 1},
    ),
    queued("failed", end_head("Configuration"), phase="Failed"),
    queued("deleted", Act(committed(2), World.delete_job)),
    queued("deleted after its children", Act(committed(2), lambda w: w.delete_job(policy="Foreground"))),
    queued("deleted while it waits", Act(is_created, STOP), Act(is_waiting, World.delete_job)),
    queued("deleted while it is evicted", Act(committed(2), evict_and_delete)),
    queued(
        "deleted while a node does not respond",
        Act(committed(2), cut_off_and_delete),
        Act(has_given_quota_back, World.remove_nodes),
    ),
    queued("on nodes that Kueue chooses", nodes=GPUS, restarts={"infrastructure": 0}),
    queued(
        "a worker that is lost on a node that Kueue chose",
        Act(committed(2), lambda w: w.remove_pod(worker(w, 0))),
        nodes=GPUS,
        restarts={"application": 0, "infrastructure": 1},
    ),
    queued("a node that Kueue chose refuses a pod", Act(committed(2), refuse_worker), nodes=GPUS + 1),
    queued("evicted as it ends", Act(committed(6), STOP), Act(has_succeeded, RESTART)),
)
