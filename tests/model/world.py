"""Everything but the operator: user, scheduler, kubelet, driver, storage and the clock, one step at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from railhead.api import names
from railhead.contract import environment as e
from railhead.contract.checkpoint import Checkpoint
from railhead.contract.failure import FailureClass, Payer
from railhead.contract.outcome import Outcome
from railhead.contract.report import Report, ReportedOutcome, RestartInPlace, State
from railhead.contract.times import format_time
from railhead.resources.settings import OperatorSettings
from tests.model.api_server import Entry, ModelApiServer, Object
from tests.unit.builders import NOW, SETTINGS, SPEC, find_code

ALONE = timedelta(seconds=60)  # an epoch of a driver that only reaches the storage
NAMESPACE, NODE = "default", "node-1"


@dataclass
class Driver:
    """The driver in one head pod. Each step is a start of the group, or an epoch with its commit."""

    attempt: int
    first_index: int
    workers: int
    pod: str  # the head's uid
    state: State = "STARTING"
    known: str = ""  # checkpoints in the status at its start
    commits: int = 0
    epoch: int = -1
    alone_until: datetime = NOW
    restart: RestartInPlace | None = None


@dataclass
class World:
    """One namespace and its clock.

    Attributes:
        epochs: how many a job trains; then its driver succeeds.
        commits: in the run's storage, as (attempt, epoch).
        starts: of worker groups, as (attempt, first epoch).
        reports: sent by drivers, but not accepted yet.
        disturbed: uids of the pods that something other than the operator has deleted.
        unreachable: the silent pods that the driver knows of.
        silent: pods on unreachable nodes; a driver there still reaches the storage.
        claim: the newest attempt in the run's fence, and the uid of its head.
        writers: by attempt, the uids of the heads that have committed.
        ghosts: heads that were deleted by force, and still run and reach the storage.
        fenced: how often the fence kept another head from committing.
        full_nodes: nodes without room for another pod.
        quota: the number of pods it admits, the head and the first worker slots; None = all.
    """

    epochs: int = 4
    now: datetime = NOW
    commits: list[tuple[int, int]] = field(default_factory=list)
    starts: list[tuple[int, int]] = field(default_factory=list)
    disturbed: set[str] = field(default_factory=set)
    unreachable: set[str] = field(default_factory=set)
    reports: list[Report] = field(default_factory=list)
    drivers: dict[str, Driver] = field(default_factory=dict)
    silent: set[str] = field(default_factory=set)
    claim: tuple[int, str] = (0, "")
    writers: dict[int, set[str]] = field(default_factory=dict)
    ghosts: list[Object] = field(default_factory=list)
    fenced: int = 0
    is_head_vanishing: bool = False  # right after the driver's last report, without a trace
    full_nodes: set[str] = field(default_factory=set)
    quota: int | None = None
    node_skew: timedelta = timedelta()  # of the nodes' clocks, by which pods end
    settings: OperatorSettings = SETTINGS  # of the operator's current version

    def __post_init__(self) -> None:
        self.api = ModelApiServer(lambda: self.now, admission=self._admit)

    def _admit(self, plural: str, body: Object) -> str:
        """Always rejects the same pods; otherwise a fault would change which of them is first."""
        if plural != "pods" or self.quota is None:
            return ""
        number = int(body["metadata"]["labels"].get(names.LABEL_SLOT, -1)) + 1
        return "exceeded quota: few, requested: pods=1" if number >= self.quota else ""

    def tick(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def apply(self, name: str = "digits", **spec: Any) -> Object:
        body = {
            "apiVersion": names.API_VERSION,
            "kind": names.KIND,
            "metadata": {"name": name},
            "spec": {**SPEC, "managedBy": names.MANAGER, **spec},
        }
        return self.api.create(("trainjobs", NAMESPACE, name), body)

    def change(self, name: str = "digits", **spec: Any) -> None:
        """The user's patch of the spec."""
        place = ("trainjobs", NAMESPACE, name)
        self.api.patch(place, {"spec": spec})

    def delete_job(self, name: str = "digits", *, policy: str = "Background") -> None:
        self.api.delete(("trainjobs", NAMESPACE, name), {"propagationPolicy": policy})
        self.claim = (0, "")  # the next job has its own run
        self.writers.clear()

    def upgrade(self) -> None:
        """Operators that start from now on have another driver."""
        self.settings = replace(SETTINGS, bundle=b"newer", bundle_name="railhead-driver-newer")

    def job(self, name: str = "digits") -> Object | None:
        return self.api.objects.get(("trainjobs", NAMESPACE, name))

    def status(self, name: str = "digits") -> Object:
        job = self.job(name)
        assert job is not None
        found: Object = job["status"]
        return found

    def pods(self, role: str = "") -> list[Object]:
        found = [obj for (plural, _, _), obj in self.api.objects.items() if plural == "pods"]
        return [pod for pod in found if role in ("", role_of(pod))]

    @property
    def children(self) -> list[str]:
        """Objects that a TrainJob owns."""
        return [
            f"{plural}/{name}"
            for (plural, _, name), obj in self.api.objects.items()
            if obj["metadata"].get("ownerReferences")
        ]

    @property
    def live_heads(self) -> list[Object]:
        """Of jobs that exist."""
        return [p for p in self.pods(names.HEAD) if is_live(p) and self._has_owner(p)]

    def _has_owner(self, pod: Object) -> bool:
        [owner] = pod["metadata"]["ownerReferences"]
        job = self.job(owner["name"])
        return job is not None and job["metadata"]["uid"] == owner["uid"]

    def step(self) -> bool:
        """Kubelets and drivers each do one thing; returns whether any of them had something to do."""
        return any(
            [
                self.api.collect(),
                *map(self._drive_alone, self.ghosts),
                *(self.step_pod(pod["metadata"]["name"]) for pod in sorted(self.pods(), key=name_of)),
            ]
        )

    def step_pod(self, name: str) -> bool:
        """The next thing that happens to one pod, if any."""
        pod = self.api.objects.get(("pods", NAMESPACE, name))
        if pod is None:
            return False
        if name in self.silent:
            return self._drive_alone(pod)
        phase = pod["status"].get("phase")
        if pod["metadata"].get("deletionTimestamp"):
            if phase == "Running":
                self._terminate(pod)
            else:
                self.remove_pod(name)
            return True
        if phase == "Pending" and NODE in self.full_nodes:
            return self._find_no_room(pod)
        if phase == "Pending" and ("configmaps", NAMESPACE, driver_of(pod)) not in self.api.objects:
            return self._cannot_mount(pod)
        if phase == "Pending":
            self._start(pod)
            return True
        if phase == "Running" and role_of(pod) == names.HEAD:
            return self._drive(pod)
        return False

    def remove_pod(self, name: str) -> None:
        """At once, without a trace."""
        self.silent.discard(name)
        self.unreachable.discard(name)
        self._disturb(name)
        if ("pods", NAMESPACE, name) in self.api.objects:
            self.api.remove(("pods", NAMESPACE, name))

    def cut_off(self, name: str) -> None:
        """Its node is unreachable, so it is deleted and stays Terminating."""
        self.silent.add(name)
        self.evict_pod(name)

    def silence(self, name: str) -> None:
        """Its node is unreachable, and only a driver that trains on it knows."""
        if all(driver.state != "RUNNING" for driver in self.drivers.values()):
            self.cut_off(name)
            return
        self.silent.add(name)
        self.unreachable.add(name)

    def delete_by_force(self, name: str) -> None:
        """A head whose node is cut off from the API server only: its pod is gone there, and it trains on."""
        self.ghosts.append(self.api.objects["pods", NAMESPACE, name])
        self.remove_pod(name)

    def remove_nodes(self) -> None:
        """The user deletes the unreachable nodes."""
        for name in sorted(self.silent):
            self.remove_pod(name)

    def evict_pod(self, name: str) -> None:
        """Deleted, as by `kubectl delete` or a drain."""
        self._disturb(name)
        if ("pods", NAMESPACE, name) in self.api.objects:
            self.api.delete(("pods", NAMESPACE, name), {})

    def _disturb(self, name: str) -> None:
        if ("pods", NAMESPACE, name) in self.api.objects:
            self.disturbed.add(self.api.objects["pods", NAMESPACE, name]["metadata"]["uid"])

    def kill_for_memory(self, name: str) -> None:
        """The kernel kills the container."""
        pod = self.api.objects["pods", NAMESPACE, name]
        self._set(
            pod, "Failed", {"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": self._node_time()}}
        )

    def end_pod(self, pod: Object, kind: str, *, code: int | None = None) -> None:
        """Its container ends, a head's with a termination message."""
        driver = self.drivers.get(pod["metadata"]["uid"])
        ended: Object = {"exitCode": find_code(kind) if code is None else code, "reason": "Error"}
        if driver is not None:
            newest, restart = self._checkpoint(driver), driver.restart or RestartInPlace(0, 0)
            ended["message"] = Outcome(
                kind,
                reason=kind,
                message="so it is",
                checkpoint=newest,
                reports=1,
                restarts=restart.number,
                charged_restarts=restart.charged,
            ).to_json()
        ended["finishedAt"] = self._node_time()
        self._set(pod, "Succeeded" if ended["exitCode"] == 0 else "Failed", {"terminated": ended})

    def restart_in_place(self, cause: FailureClass = FailureClass.APPLICATION) -> bool:
        """The driver restarts a group that trains; returns whether there was one."""
        for head in self.live_heads:
            driver = self.drivers.get(head["metadata"]["uid"])
            if driver is not None and driver.state == "RUNNING":
                before = driver.restart or RestartInPlace(0, 0)
                charged = before.charged + (cause.policy.payer is Payer.APPLICATION)
                driver.restart = RestartInPlace(before.number + 1, charged, cause.value, "Raised", "so it is")
                driver.state = "RESTARTING"
                self._report(head, driver)
                return True
        return False

    def _node_time(self) -> str:
        return format_time(self.now + self.node_skew)

    def _cannot_mount(self, pod: Object) -> bool:
        """The kubelet's Event, posted once; the pod's status does not show it."""
        name = f"{name_of(pod)}.mount"
        if ("events", NAMESPACE, name) in self.api.objects:
            return False
        about = {"kind": "Pod", "name": name_of(pod), "namespace": NAMESPACE, "uid": pod["metadata"]["uid"]}
        message = f'MountVolume.SetUp failed for volume "railhead-bundle" : configmap "{driver_of(pod)}" not found'
        body = {"metadata": {"name": name}, "involvedObject": about, "reason": "FailedMount", "message": message}
        self.api.create(("events", NAMESPACE, name), body)
        self.api.bind(name_of(pod), NODE, namespace=NAMESPACE)
        return True

    def _find_no_room(self, pod: Object) -> bool:
        """The scheduler's condition, set once."""
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}
        status = {"phase": "Pending", "conditions": [condition]}
        before = self.api.version
        place = ("pods", NAMESPACE, name_of(pod))
        self.api.patch(place, {"status": status}, subresource="status")
        return self.api.version != before

    def _start(self, pod: Object) -> None:
        self.api.bind(pod["metadata"]["name"], NODE, namespace=NAMESPACE)
        self._set(pod, "Running", {"running": {"startedAt": ""}})
        if role_of(pod) == names.HEAD:
            env = {item["name"]: item.get("value") for item in pod["spec"]["containers"][0]["env"]}
            self.drivers[pod["metadata"]["uid"]] = Driver(
                attempt=int(env[e.ATTEMPT]),
                first_index=int(env[e.CHECKPOINT_INDEX]) + 1,
                workers=int(env[e.WORKER_PODS]),
                pod=pod["metadata"]["uid"],
                known=str(env[e.KNOWN_CHECKPOINTS]),
            )

    def _terminate(self, pod: Object) -> None:
        """SIGTERM: a driver in training waits for one more commit."""
        driver = self.drivers.get(pod["metadata"]["uid"])
        if driver is not None and driver.state == "RUNNING" and self._has_group(pod, driver):
            if driver.epoch < self.epochs:
                self._commit(driver)
            if driver.epoch >= self.epochs:
                self.end_pod(pod, "Succeeded")
                return
        self.end_pod(pod, "Preemption" if driver else "Infrastructure", code=None if driver else 1)

    def _drive_alone(self, pod: Object) -> bool:
        """A head cut off from the API server keeps training with its workers, and commits while the fence allows it."""
        driver = self.drivers.get(pod["metadata"]["uid"])
        if driver is None or driver.state != "RUNNING" or driver.epoch >= self.epochs:
            return False
        if self.now < driver.alone_until:
            return False
        driver.alone_until = self.now + ALONE
        return self._has_group(pod, driver) and self._commit(driver)

    def _drive(self, head: Object) -> bool:
        """One step of the driver, and its report."""
        driver = self.drivers[head["metadata"]["uid"]]
        before = (driver.state, driver.commits)
        if not self._has_group(head, driver):
            driver.state = "SCHEDULING" if driver.state in ("STARTING", "SCHEDULING") else "RESTARTING"
        elif driver.state not in ("RUNNING", "FINISHED"):
            if self.claim[0] == driver.attempt and self.claim[1] != driver.pod:
                self.fenced += 1
                self.end_pod(head, "Fenced")
                return True
            driver.state = "RUNNING"
            self.claim = max(self.claim, (driver.attempt, driver.pod))
            driver.epoch = self.commits[-1][1] + 1 if self.commits else 0
            if not driver.commits and self.commits and f'"c{self.commits[-1][1]}"' not in driver.known:
                driver.commits += 1  # the attempt before had no time to report it
            self.starts.append((driver.attempt, driver.epoch))
        elif driver.epoch < self.epochs:
            self._commit(driver)
        elif driver.state != "FINISHED":
            driver.state = "FINISHED"
            self._report(head, driver, ReportedOutcome("Succeeded"))
            return True
        elif self.is_head_vanishing:
            self.remove_pod(name_of(head))
            return True
        else:
            self.end_pod(head, "Succeeded")
            return True
        self._report(head, driver)
        return (driver.state, driver.commits) != before

    def _commit(self, driver: Driver) -> bool:
        if (driver.attempt, driver.pod) < self.claim:
            self.fenced += 1
            return False
        last = self.commits[-1][1] if self.commits else -1
        assert driver.epoch == last + 1, f"epoch {driver.epoch} of attempt {driver.attempt} comes after {last}"
        self.commits.append((driver.attempt, driver.epoch))
        self.writers.setdefault(driver.attempt, set()).add(driver.pod)
        driver.commits += 1
        driver.epoch += 1
        return True

    def _has_group(self, head: Object, driver: Driver) -> bool:
        if not self._has_owner(head):
            return False  # being deleted: whatever it still does goes to its own run
        return self._count_joined(head) >= driver.workers

    def _count_joined(self, head: Object) -> int:
        attempt = head["metadata"]["labels"][names.LABEL_ATTEMPT]
        return sum(
            p["metadata"]["labels"][names.LABEL_ATTEMPT] == attempt
            and p["metadata"]["ownerReferences"] == head["metadata"]["ownerReferences"]
            and p["status"].get("phase") == "Running"
            and (p["metadata"]["name"] in self.silent) == (head["metadata"]["name"] in self.silent)
            for p in self.pods(names.WORKER)
        )

    def _checkpoint(self, driver: Driver) -> Checkpoint | None:
        if not driver.commits:
            return None
        epoch = self.commits[-1][1]
        index = driver.first_index + driver.commits - 1
        return Checkpoint(f"/runs/c{epoch}", index, "2026-01-01T00:00:00Z")

    def _report(self, head: Object, driver: Driver, outcome: ReportedOutcome | None = None) -> None:
        [owner] = head["metadata"]["ownerReferences"]
        self.reports.append(
            Report(
                namespace=NAMESPACE,
                name=owner["name"],
                uid=owner["uid"],
                attempt=driver.attempt,
                state=driver.state,
                reports=driver.commits,
                joined=self._count_joined(head),
                time="2026-01-01T00:00:00Z",
                checkpoint=self._checkpoint(driver),
                run_uri="/runs",
                lost_pods=tuple(sorted(self.unreachable)),
                outcome=outcome,
                restart=driver.restart,
            )
        )

    def _set(self, pod: Object, phase: str, state: Object) -> None:
        place = ("pods", NAMESPACE, pod["metadata"]["name"])
        status = {"phase": phase, "containerStatuses": [{"name": names.CONTAINER, "state": state}]}
        self.api.patch(place, {"status": status}, subresource="status")


def name_of(pod: Object) -> str:
    return str(pod["metadata"]["name"])


def role_of(pod: Object) -> str:
    return str(pod["metadata"]["labels"].get(names.LABEL_ROLE))


def driver_of(pod: Mapping[str, Any]) -> str:
    """The ConfigMap with its driver."""
    [volume] = [volume for volume in pod["spec"]["volumes"] if volume["name"] == "railhead-bundle"]
    return str(volume["configMap"]["name"])


def is_live(pod: Object) -> bool:
    """Its process may run, or still start."""
    return pod["status"].get("phase") in ("Pending", "Running")


def changes_of(log: list[Entry], plural: str) -> Iterator[tuple[Object, Object]]:
    """Each object before and after each of its changes."""
    before: dict[str, Object] = {}
    for entry in log:
        if entry.plural != plural:
            continue
        uid = entry.object["metadata"]["uid"]
        if entry.type == "MODIFIED" and uid in before:
            yield before[uid], entry.object
        before[uid] = entry.object
