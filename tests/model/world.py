"""Everything but the operator: user, scheduler, kubelet, driver, storage and the clock, one step at a time."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from railhead.api import names
from railhead.api.status import parse_status
from railhead.contract import environment as e
from railhead.contract.failure import FailureClass, Payer
from railhead.contract.job_input import FILE, JobInput
from railhead.contract.outcome import Outcome
from railhead.contract.report import CommittedCheckpoint, Report, ReportedOutcome, RestartInPlace, State
from railhead.contract.times import format_time, parse_time
from railhead.controller.operator_metrics import classify_loss
from railhead.driver.head.time_meter import TimeMeter
from railhead.driver.mailbox.progress import Progress, ReportTimes
from railhead.resources.base import OperatorSettings
from tests.model.api_server import Entry, ModelApiServer, Object, Place
from tests.model.kueue import ModelKueue
from tests.model.nodes import choose_node, make_node
from tests.model.run import Run
from tests.unit.builders import NOW, SETTINGS, SPEC, find_code

BLOCKED = ReportTimes(blocked=2.5, trained=0.25)  # by each commit; and how long training has continued until then
ALONE = timedelta(seconds=60)  # an epoch of a driver that only reaches the storage
NAMESPACE, NODE = "default", "node-1"
BESIDE = "beside"  # another namespace
NAME = "digits"
HANG_SECONDS = 400
NEVER_STARTED: Object = {
    "exitCode": 137,
    "reason": "ContainerStatusUnknown",
    "message": "The container could not be located when the pod was terminated",
}
INERT = ["sleep", "infinity"]  # the command of a pod that only looks like one of ours


@dataclass
class Driver:
    """The driver in one head pod. Each step is a start of the group, or an epoch with its commit."""

    attempt: int
    first_index: int
    workers: int
    pod: str  # the head's uid
    run: Run = field(default_factory=Run)
    state: State = "STARTING"
    known: str = ""  # checkpoints in the status at its start
    commits: int = 0
    epoch: int = -1
    alone_until: datetime = NOW
    due: datetime = NOW  # of the next commit
    restart: RestartInPlace | None = None
    meter: TimeMeter = field(default_factory=lambda: TimeMeter(now=0.0))
    begun: datetime = NOW
    groups: int = 0
    blocked: float = 0.0

    def count_time(self, now: datetime, outcome: ReportedOutcome | None) -> None:
        """As the publisher does, with the times that rank 0 has attached to the newest checkpoint."""
        progress = Progress(
            state=self.state,
            is_training=self.state == "RUNNING",
            commits=self.commits,
            processes=(f"{self.groups}",),
            times=replace(BLOCKED, blocked=self.blocked),
        )
        seconds = (now - self.begun).total_seconds()
        self.meter.update(progress, None, restart=self.restart, outcome=outcome, now=seconds)
        spent = asdict(self.meter.spent)
        assert 0 <= spent.pop("uncommitted") <= spent["productive"] and sum(spent.values()) <= seconds * 1000


@dataclass
class World:
    """A cluster and its clock. Most methods mean the job `digits` in one namespace.

    Attributes:
        epochs: how many a job trains; then its driver succeeds.
        pace: how long an epoch takes; `ending`: how long a pod does after its deletion.
        runs: by the name of their job.
        kubelets: asked before a pod starts on its node; false = one of them has refused the pod.
        quotas: asked before a pod is created, for the message of a rejection.
        policies: asked before each request that writes, for the message of a denial.
        cut: uids of the heads that reach none of their workers.
        deaf: uids of those that no new worker reaches, and since when.
        mutations: change the pods that are created.
        reports: sent by drivers, but not accepted yet.
        disturbed: uids of the pods that something other than the operator has deleted.
        unreachable: the silent pods that the driver knows of.
        silent: pods on unreachable nodes; a driver there still reaches the storage.
        slow: pods that use all of their grace period.
        denied: pods whose delete a policy has denied.
        ghosts: heads that were deleted by force, and still run and reach the storage.
        full_nodes: nodes without room for another pod.
        quota: the number of pods it admits, the head and the first worker slots; None = all.
        kueue: None = the operator does not use Kueue.
    """

    epochs: int = 4
    now: datetime = NOW
    pace: timedelta = timedelta()
    ending: timedelta = timedelta()
    runs: defaultdict[str, Run] = field(default_factory=lambda: defaultdict(Run))
    kubelets: list[Callable[[Object], bool]] = field(default_factory=list)
    quotas: list[Callable[[Object], str]] = field(default_factory=list)
    policies: list[Callable[[str, Place, str], str]] = field(default_factory=list)
    cut: set[str] = field(default_factory=set)
    deaf: dict[str, datetime] = field(default_factory=dict)
    mutations: list[Callable[[Object], Object]] = field(default_factory=list)
    disturbed: set[str] = field(default_factory=set)
    unreachable: set[str] = field(default_factory=set)
    reports: list[Report] = field(default_factory=list)
    drivers: dict[str, Driver] = field(default_factory=dict)
    silent: set[str] = field(default_factory=set)
    slow: set[str] = field(default_factory=set)
    denied: set[str] = field(default_factory=set)
    ghosts: list[Object] = field(default_factory=list)
    is_head_vanishing: bool = False  # right after the driver's last report, without a trace
    full_nodes: set[str] = field(default_factory=set)
    quota: int | None = None
    kueue: ModelKueue | None = None
    _run_names: dict[str, str] = field(default_factory=dict)  # by the name of their job
    node_skew: timedelta = timedelta()  # of the nodes' clocks, by which pods end
    settings: OperatorSettings = SETTINGS  # of the operator's current version

    def __post_init__(self) -> None:
        self.api = ModelApiServer(lambda: self.now, admission=self._admit, policy=self._judge, mutation=self._mutate)

    def _mutate(self, plural: str, body: Object) -> Object:
        if plural != "pods":
            return body
        for mutate in self.mutations:
            body = mutate(body)
        self._note_run(body)
        return body

    def _note_run(self, pod: Object) -> None:
        """The first head that is made, and that may never start, tells which run is the job's."""
        job = self.job_of(pod)
        if job is not None and role_of(pod) == names.HEAD:
            self._run_names.setdefault(name_of(job), job["status"]["run"]["name"])

    def _judge(self, method: str, place: Place, subresource: str) -> str:
        is_delete = (method, place[0]) == ("DELETE", "pods")
        was_denied = place[2] in self.denied
        if is_delete:
            self.denied.add(place[2])
        message = next((found for judge in self.policies if (found := judge(method, place, subresource))), "")
        if is_delete and not message and not was_denied:
            self.denied.discard(place[2])  # a policy may also raise
        return message

    def _admit(self, plural: str, body: Object) -> str:
        """Always rejects the same pods; otherwise a fault would change which of them is first."""
        if plural != "pods":
            return ""
        if message := next((found for quota in self.quotas if (found := quota(body))), ""):
            return message
        if self.quota is None:
            return ""
        number = int(body["metadata"]["labels"].get(names.LABEL_SLOT, -1)) + 1
        return "exceeded quota: few, requested: pods=1" if number >= self.quota else ""

    @property
    def run(self) -> Run:
        return self.runs[NAME]

    @property
    def commits(self) -> list[tuple[int, int]]:
        return self.run.commits

    @property
    def starts(self) -> list[tuple[int, int]]:
        return self.run.starts

    @property
    def writers(self) -> dict[int, set[str]]:
        return self.run.writers

    @property
    def fenced(self) -> int:
        return self.run.fenced

    def add_nodes(self, count: int, *, prefix: str = "node") -> None:
        """From now on, pods run on these nodes only."""
        for number in range(count):
            self.api.create(("nodes", "", ""), make_node(f"{prefix}-{number}"))

    def add_queue(self, *, gpus: int, has_topology: bool = False) -> None:
        """From now on, Kueue runs, and operators that start use it."""
        self.kueue = ModelKueue(self.api, NAMESPACE, gpus=gpus, has_topology=has_topology)

    def tick(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def apply(self, name: str = NAME, *, namespace: str = NAMESPACE, **spec: Any) -> Object:
        body = {
            "apiVersion": names.API_VERSION,
            "kind": names.KIND,
            "metadata": {"name": name},
            "spec": {**SPEC, "managedBy": names.MANAGER, **spec},
        }
        return self.api.create(("trainjobs", namespace, name), body)

    def change(self, name: str = NAME, **spec: Any) -> None:
        """The user's patch of the spec."""
        place = ("trainjobs", NAMESPACE, name)
        self.api.patch(place, {"spec": spec})

    def delete_job(self, name: str = NAME, *, policy: str = "Background") -> None:
        self.api.delete(("trainjobs", NAMESPACE, name), {"propagationPolicy": policy})
        self.forget_run(name)

    def forget_run(self, name: str) -> None:
        """The next job of this name has its own run."""
        self.runs.pop(name, None)
        self._run_names.pop(name, None)

    def hold(self, *finalizers: str, name: str = "digits") -> None:
        """Replaces the job's finalizers: with one, a deleted job stays."""
        self.api.patch(("trainjobs", NAMESPACE, name), {"metadata": {"finalizers": list(finalizers)}})

    def upgrade(self) -> None:
        """Operators that start from now on have another driver."""
        self.settings = replace(SETTINGS, bundle=b"newer", bundle_name="railhead-driver-newer")

    def job(self, name: str = NAME, *, namespace: str = NAMESPACE) -> Object | None:
        return self.api.objects.get(("trainjobs", namespace, name))

    def status(self, name: str = NAME, *, namespace: str = NAMESPACE) -> Object:
        job = self.job(name, namespace=namespace)
        assert job is not None
        found: Object = job["status"]
        return found

    def pods(self, role: str = "") -> list[Object]:
        found = self.api.objects.of("pods")
        if not role:
            return found
        return [pod for pod in found if role_of(pod) == role]

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

    def job_of(self, pod: Object) -> Object | None:
        """Its owner, if that exists."""
        for owner in pod["metadata"].get("ownerReferences") or []:
            job = self.job(owner["name"], namespace=pod["metadata"]["namespace"])
            if job is not None and job["metadata"]["uid"] == owner["uid"]:
                return job
        return None

    def _has_owner(self, pod: Object) -> bool:
        return self.job_of(pod) is not None

    def find_pod(self, name: str) -> Object | None:
        return next((self.api.objects[place] for place in self._places(name) if place in self.api.objects), None)

    def _places(self, name: str) -> list[tuple[str, str, str]]:
        return [("pods", NAMESPACE, name), ("pods", BESIDE, name)]

    def step(self) -> bool:
        """Kubelets, drivers and Kueue each do one thing; returns whether any of them had something to do."""
        return any(
            [
                self.api.collect(),
                self.kueue is not None and self.kueue.run_once(self.now),
                *map(self._drive_alone, self.ghosts),
                *(self.step_pod(pod["metadata"]["name"]) for pod in sorted(self.pods(), key=name_of)),
            ]
        )

    def step_pod(self, name: str) -> bool:
        """The next thing that happens to one pod, if any."""
        pod = self.find_pod(name)
        if pod is None:
            return False
        if name in self.silent:
            return self._drive_alone(pod)
        phase = pod["status"].get("phase")
        if pod["metadata"].get("deletionTimestamp"):
            return self._end(pod)
        if phase == "Pending":
            return self._begin(pod)
        if is_live(pod) and pod["metadata"]["uid"] in self.drivers:
            return self._drive(pod)
        return False

    def _end(self, pod: Object) -> bool:
        """The kubelet ends a pod that is being deleted: first ray, then the other containers, then the pod."""
        metadata = pod["metadata"]
        if self.now < self.ends_at(pod):
            return False
        if is_live(pod) and pod["status"]["phase"] == "Running":
            self.terminate(pod)
            return True
        if is_live(pod) and pod["spec"].get("nodeName"):
            self._end_unstarted(pod)
            return True
        if pod["status"]["phase"] == "Running":
            self.api.patch(place_of(pod), {"status": {"phase": "Failed"}}, subresource="status")
            return True
        if metadata.get("finalizers") and metadata["deletionGracePeriodSeconds"] == 0:
            return False
        if metadata.get("finalizers"):
            self.api.delete(place_of(pod), {"gracePeriodSeconds": 0})
            return True
        self._forget(name_of(pod))
        self.api.remove(place_of(pod))
        return True

    def _end_unstarted(self, pod: Object) -> None:
        """The kubelet ends a pod that never ran: pkg/kubelet/status/status_manager.go, TerminatePod."""
        containers = pod["spec"].get("containers") or []
        statuses = [{"name": each["name"], "state": {"terminated": dict(NEVER_STARTED)}} for each in containers]
        status = {"phase": "Failed", "containerStatuses": statuses}
        self.api.patch(place_of(pod), {"status": status}, subresource="status")

    def ends_at(self, pod: Object) -> datetime:
        """When a pod that is being deleted ends."""
        by, grace = parse_time(pod["metadata"]["deletionTimestamp"]), pod["metadata"]["deletionGracePeriodSeconds"]
        assert by is not None
        if name_of(pod) in self.slow:
            return by
        return min(by, by - timedelta(seconds=grace) + self.ending)

    def _begin(self, pod: Object) -> bool:
        """The scheduler chooses a node, whose kubelet admits the pod and starts it."""
        if pod["spec"].get("schedulingGates"):
            return self._find_no_node(pod, "SchedulingGated", "Scheduling is blocked due to non-empty scheduling gates")
        node = pod["spec"].get("nodeName") or self._choose_node(pod)
        if not node:
            message = "0/8 nodes are available: 8 Insufficient nvidia.com/gpu."
            return self._find_no_node(pod, "Unschedulable", message)
        if not pod["spec"].get("nodeName"):
            pod = self.api.bind(name_of(pod), node, namespace=pod["metadata"]["namespace"])
        before = self.api.version
        if not all(kubelet(pod) for kubelet in self.kubelets):
            return self.api.version != before
        if not is_inert(pod) and ("configmaps", pod["metadata"]["namespace"], driver_of(pod)) not in self.api.objects:
            return self._cannot_mount(pod)
        self._start(pod)
        return True

    def _choose_node(self, pod: Object) -> str:
        if any(plural == "nodes" for plural, _, _ in self.api.objects):
            return choose_node(self.api, pod)
        return "" if NODE in self.full_nodes else NODE

    def remove_pod(self, name: str) -> None:
        """At once, without a trace."""
        self._forget(name)
        self._disturb(name)
        if pod := self.find_pod(name):
            self.api.remove(place_of(pod))

    def _forget(self, name: str) -> None:
        self.silent.discard(name)
        self.unreachable.discard(name)

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

    def is_switched_off(self, pod: Object) -> bool:
        """Its machine has no power. Of a machine that is only cut off, the driver still runs."""
        is_head = role_of(pod) == names.HEAD and bool(pod["spec"].get("nodeName"))
        return is_head and name_of(pod) in self.silent and pod["metadata"]["uid"] not in self.drivers

    def remove_nodes(self) -> None:
        """The user deletes the unreachable nodes."""
        for name in sorted(self.silent):
            self.remove_pod(name)

    def evict_pod(self, name: str) -> None:
        """Deleted, as by `kubectl delete` or a drain."""
        self._disturb(name)
        if pod := self.find_pod(name):
            self.api.delete(place_of(pod), {})

    def _disturb(self, name: str) -> None:
        if pod := self.find_pod(name):
            self.disturbed.add(pod["metadata"]["uid"])

    def kill_for_memory(self, name: str) -> None:
        """The kernel kills the container."""
        pod = self.find_pod(name)
        assert pod is not None
        self._set(
            pod, "Failed", {"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": self._node_time()}}
        )

    def kill_pod(self, pod: Object) -> None:
        """Its container ends at once, without a termination message."""
        self._set(pod, "Failed", {"terminated": {"exitCode": 137, "reason": "Error", "finishedAt": self._node_time()}})

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

    def fail(self, head: Object, kind: str) -> None:
        """The driver reports how the attempt ends, and exits; a hang is found after some time."""
        if kind == FailureClass.HANG.value:
            self.tick(HANG_SECONDS)
        if (driver := self.drivers.get(head["metadata"]["uid"])) is not None:
            self._report(head, driver, ReportedOutcome(kind))
        self.end_pod(head, kind)

    @property
    def trains(self) -> bool:
        """Whether a group of a live head trains."""
        return next(self._find_training(), None) is not None

    def _find_training(self) -> Iterator[tuple[Object, Driver]]:
        for head in self.live_heads:
            driver = self.drivers.get(head["metadata"]["uid"])
            if driver is not None and driver.state == "RUNNING":
                yield head, driver

    def restart_in_place(self, cause: FailureClass = FailureClass.APPLICATION) -> bool:
        """The driver restarts a group that trains; returns whether there was one."""
        for head, driver in self._find_training():
            before = driver.restart or RestartInPlace(0, 0)
            charged = before.charged + (cause.policy.payer is Payer.APPLICATION)
            driver.restart = RestartInPlace(before.number + 1, charged, cause.value, "Raised", "so it is")
            if cause is FailureClass.HANG:
                self.tick(HANG_SECONDS)
            driver.state = "RESTARTING"
            self._report(head, driver)
            return True
        return False

    def find_driver_of(self, worker: Object) -> tuple[Object | None, Driver | None]:
        """The head of its attempt, and the driver there."""
        attempt, owners = worker["metadata"]["labels"][names.LABEL_ATTEMPT], worker["metadata"]["ownerReferences"]
        for head in self.live_heads:
            metadata = head["metadata"]
            if metadata["labels"][names.LABEL_ATTEMPT] == attempt and metadata["ownerReferences"] == owners:
                return head, self.drivers.get(metadata["uid"])
        return None, None

    def fail_gpu(self, head: Object, worker: Object, *, in_place: bool) -> None:
        """The driver names the pod, and either restarts its group, which waits for another pod, or ends the attempt."""
        kind, reason, why, suspect = "Hardware", "GPUFailed", "uncorrectable ECC error", name_of(worker)
        driver = self.drivers[head["metadata"]["uid"]]
        before = driver.restart or RestartInPlace(0, 0)
        if not in_place:
            self._report(head, driver, ReportedOutcome(kind, reason, why, suspect_pod=suspect))
            outcome = Outcome(kind, reason, why, suspect_pod=suspect, checkpoint=self._checkpoint(driver))
            outcome = replace(outcome, restarts=before.number, charged_restarts=before.charged)
            ended = {"exitCode": find_code(kind), "finishedAt": self._node_time(), "message": outcome.to_json()}
            self._set(head, "Failed", {"terminated": ended})
            return
        number, at = before.number + 1, self._node_time()
        driver.restart = RestartInPlace(number, before.charged, kind, reason, why, suspect, at)
        driver.state = "RESTARTING"
        self.unreachable.add(suspect)
        self._report(head, driver)

    def _node_time(self) -> str:
        return format_time(self.now + self.node_skew)

    def _cannot_mount(self, pod: Object) -> bool:
        message = f'MountVolume.SetUp failed for volume "railhead-bundle" : configmap "{driver_of(pod)}" not found'
        return self.report_event(pod, "FailedMount", message)

    def report_event(self, pod: Object, reason: str, message: str) -> bool:
        """The kubelet's Event, posted once for each pod, also of the same name; the pod's status does not show it."""
        name, namespace = f"{name_of(pod)}.{pod['metadata']['uid']}", pod["metadata"]["namespace"]
        if ("events", namespace, name) in self.api.objects:
            return False
        about = {"kind": "Pod", "name": name_of(pod), "namespace": namespace, "uid": pod["metadata"]["uid"]}
        body = {"metadata": {"name": name}, "involvedObject": about, "reason": reason, "message": message}
        self.api.create(("events", namespace, name), body)
        return True

    def _find_no_node(self, pod: Object, reason: str, message: str) -> bool:
        """The condition that the scheduler sets once."""
        condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
        status = {"phase": "Pending", "conditions": [condition]}
        before = self.api.version
        self.api.patch(place_of(pod), {"status": status}, subresource="status")
        return self.api.version != before

    def _start(self, pod: Object) -> None:
        self._set(pod, "Running", {"running": {"startedAt": ""}})
        if role_of(pod) == names.HEAD and not is_inert(pod):
            env = {item["name"]: item.get("value") for item in pod["spec"]["containers"][0]["env"]}
            self.drivers[pod["metadata"]["uid"]] = Driver(
                attempt=int(env[e.ATTEMPT]),
                first_index=int(env[e.CHECKPOINT_INDEX]) + 1,
                workers=int(env[e.WORKER_PODS]),
                pod=pod["metadata"]["uid"],
                run=self._find_run(pod),
                known=str(env[e.KNOWN_CHECKPOINTS]),
                begun=self.now,
            )

    def _find_run(self, head: Object) -> Run:
        """The run of its job; another one for an attempt that a restored job begins before its status is there."""
        [owner] = head["metadata"]["ownerReferences"]
        [volume] = [each for each in head["spec"]["volumes"] if each["name"] == "railhead-input"]
        job_input = self.api.objects.get(("configmaps", head["metadata"]["namespace"], volume["configMap"]["name"]))
        if job_input is None or not self._has_owner(head):
            return self.runs[owner["name"]]
        name = JobInput.from_json(job_input["data"][FILE]).run_name
        if name == self._run_names[owner["name"]]:
            return self.runs[owner["name"]]
        return self.runs[name]

    def terminate(self, pod: Object) -> None:
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
        before, run = (driver.state, driver.commits), driver.run
        if run.has_succeeded and driver.attempt > run.claim[0]:
            self.end_pod(head, "Succeeded")  # the head of an earlier attempt was lost before the operator knew
            return True
        if not self._has_group(head, driver):
            driver.state = "SCHEDULING" if driver.state in ("STARTING", "SCHEDULING") else "RESTARTING"
        elif driver.state not in ("RUNNING", "FINISHED"):
            if run.claim[0] > driver.attempt or (run.claim[0] == driver.attempt and run.claim[1] != driver.pod):
                run.fenced += 1
                self.end_pod(head, "Fenced")
                return True
            driver.state, driver.groups, driver.blocked = "RUNNING", driver.groups + 1, 0.0
            run.claim = max(run.claim, (driver.attempt, driver.pod))
            driver.epoch, driver.due = run.last + 1, self.now + self.pace
            if not driver.commits and run.commits and f'"c{run.last}"' not in driver.known:
                driver.commits += 1  # the attempt before had no time to report it
            run.starts.append((driver.attempt, driver.epoch))
        elif driver.epoch < self.epochs:
            if self.now < driver.due:
                return False
            self._commit(driver)
        elif driver.state != "FINISHED":
            driver.state, run.has_succeeded = "FINISHED", True
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
        if not driver.run.commit(driver.attempt, driver.epoch, pod=driver.pod):
            return False
        driver.commits += 1
        driver.epoch += 1
        driver.blocked += BLOCKED.blocked
        driver.due = self.now + self.pace
        return True

    def _has_group(self, head: Object, driver: Driver) -> bool:
        if not self._has_owner(head):
            return False  # being deleted: whatever it still does goes to its own run
        return self._count_joined(head) >= self._least_workers(head, driver)

    def _least_workers(self, head: Object, driver: Driver) -> int:
        """An elastic group trains with fewer."""
        job = self.job_of(head)
        least = job["spec"]["scaling"].get("minWorkers") if job else None
        return int(least or driver.workers)

    def _count_joined(self, head: Object) -> int:
        if head["metadata"]["uid"] in self.cut:
            return 0
        attempt = head["metadata"]["labels"][names.LABEL_ATTEMPT]
        deaf_since = self.deaf.get(head["metadata"]["uid"])
        return sum(
            p["metadata"]["labels"].get(names.LABEL_ATTEMPT) == attempt
            and p["metadata"].get("ownerReferences") == head["metadata"]["ownerReferences"]
            and not is_inert(p)
            and (deaf_since is None or p["metadata"]["creationTimestamp"] < format_time(deaf_since))
            and p["status"].get("phase") == "Running"
            and p["metadata"]["name"] not in self.unreachable - self.silent
            and (p["metadata"]["name"] in self.silent) == (head["metadata"]["name"] in self.silent)
            for p in self.pods(names.WORKER)
        )

    def _checkpoint(self, driver: Driver) -> CommittedCheckpoint | None:
        if not driver.commits:
            return None
        index = driver.first_index + driver.commits - 1
        return CommittedCheckpoint(f"/runs/c{driver.run.last}", index, "2026-01-01T00:00:00Z")

    def _report(self, head: Object, driver: Driver, outcome: ReportedOutcome | None = None) -> None:
        [owner] = head["metadata"]["ownerReferences"]
        driver.count_time(self.now, outcome)
        self.reports.append(
            Report(
                namespace=head["metadata"]["namespace"],
                name=owner["name"],
                uid=owner["uid"],
                attempt=driver.attempt,
                state=driver.state,
                reports=driver.commits,
                joined=self._count_joined(head),
                time=format_time(self.now),
                spent=driver.meter.spent,
                checkpoint=self._checkpoint(driver),
                run_uri="/runs",
                lost_pods=tuple(sorted(self.unreachable | self._find_cut_off(head))),
                outcome=outcome,
                restart=driver.restart,
            )
        )

    def _find_cut_off(self, head: Object) -> set[str]:
        """The workers that a head without a network calls in vain."""
        if head["metadata"]["uid"] not in self.cut:
            return set()
        owners = head["metadata"]["ownerReferences"]
        return {name_of(p) for p in self.pods(names.WORKER) if p["metadata"].get("ownerReferences") == owners}

    def _set(self, pod: Object, phase: str, state: Object) -> None:
        """A sidecar continues to run when the ray container has ended."""
        containers = pod["spec"].get("containers") or []
        others = [{"name": each["name"], "state": {"running": {}}} for each in containers[1:]]
        is_held = others and "running" not in state
        statuses = [{"name": names.CONTAINER, "state": state}, *others]
        status = {"phase": "Running" if is_held else phase, "containerStatuses": statuses}
        self.api.patch(place_of(pod), {"status": status}, subresource="status")


def name_of(pod: Object) -> str:
    return str(pod["metadata"]["name"])


def place_of(pod: Object) -> tuple[str, str, str]:
    return "pods", str(pod["metadata"]["namespace"]), name_of(pod)


def is_inert(pod: Object) -> bool:
    """It only looks like one of ours: its container does nothing."""
    return any(each.get("command") == INERT for each in pod["spec"].get("containers") or [])


def role_of(pod: Object) -> str:
    return str((pod["metadata"].get("labels") or {}).get(names.LABEL_ROLE))


def driver_of(pod: Mapping[str, Any]) -> str:
    """The ConfigMap with its driver."""
    [volume] = [volume for volume in pod["spec"]["volumes"] if volume["name"] == "railhead-bundle"]
    return str(volume["configMap"]["name"])


def is_live(pod: Object) -> bool:
    """Its process may run, or still start."""
    statuses = pod["status"].get("containerStatuses") or []
    has_ended = any(each["name"] == names.CONTAINER and "terminated" in each["state"] for each in statuses)
    return pod["status"].get("phase") in ("Pending", "Running") and not has_ended


def count_losses(log: list[Entry], uid: str = "") -> Counter[str]:
    """Counts what jobs, or the one of this uid, restarted from, by cause as the metric does, and restarts in place."""
    found: Counter[str] = Counter()
    for before, after in changes_of(log, "trainjobs"):
        if uid in ("", after["metadata"]["uid"]):
            found += count_change(before["status"], after["status"])
    return found


def count_change(old: Object, new: Object) -> Counter[str]:
    """Counts the losses of one change of a status."""
    begun = new.get("attempt", 0) > old.get("attempt", 0)
    is_again = begun or new.get("round", 0) > old.get("round", 0)
    loss = classify_loss(parse_status(old), parse_status(new)) if is_again else ""
    number = 0 if begun else _count_in_place(new) - _count_in_place(old)
    return Counter({"inPlace": number, **({loss: 1} if loss else {})})


def _count_in_place(status: Object) -> int:
    return int((status.get("countedRestarts") or {}).get("number", 0))


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
