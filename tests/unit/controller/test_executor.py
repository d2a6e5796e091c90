"""The executor: status first, then deletes, then children; and what each rejection means for the rest."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import pytest

from railhead.api import names
from railhead.api.parsed_spec import JobKey
from railhead.controller.events import EventRecorder
from railhead.controller.executor import ChildRejected, Executor, LostCompare
from railhead.kube.errors import Conflict, Denied, Gone, KubeError, RetryAfter
from railhead.planning import plan as policies
from railhead.planning.observed import Denial, Remove
from railhead.planning.plan import ChildPolicy, Create, Delete, DeleteJob, Event, Plan
from railhead.planning.planner import plan
from railhead.planning.pod_view import PodView, Problem
from railhead.planning.wanted_status import StatusWrite
from railhead.together import MOST_AT_A_TIME
from tests.model.api_server import Object
from tests.model.client import ModelClient, make_client
from tests.model.faults import WRITES
from tests.unit.builders import SETTINGS, UID, make_observed
from tests.unit.controller.raws import JOB_OWNER

KEY = JobKey("default", "digits")
WRITE = StatusWrite(
    fields={"phase": "Pending", "attempt": 1},
    tests={"/metadata/uid": UID, "/status/attempt": 0},
)
PLACE = ("trainjobs", "default", "digits")
REJECTED = Denied(422, "Invalid", "the server rejected our request due to an error in our request")


@dataclass
class RecordedCache:
    """Records what the executor caches."""

    jobs: list[Any] = field(default_factory=list)
    gone: list[tuple[JobKey, str]] = field(default_factory=list)
    pods: list[str] = field(default_factory=list)
    denied: list[tuple[str, str, str]] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    workloads: list[Any] = field(default_factory=list)

    def record_workload(self, raw: dict[str, Any]) -> None:
        self.workloads.append(raw)

    def record_job(self, raw: dict[str, Any]) -> None:
        self.jobs.append(raw)

    def record_job_gone(self, key: JobKey, uid: str) -> None:
        self.gone.append((key, uid))

    def record_pod(self, raw: dict[str, Any]) -> None:
        self.pods.append(raw["metadata"]["name"])

    def record_denial(self, key: JobKey, uid: str, denial: Denial) -> None:
        self.denied.append((denial.kind, denial.name, denial.message))

    def forget_denial(self, uid: str, name: str) -> None:
        self.deleted.append(name)


@pytest.fixture
def recorded() -> RecordedCache:
    return RecordedCache()


@pytest.fixture
def client() -> ModelClient:
    """Its server has the job, and nothing else."""
    return make_client(make_job())


@pytest.fixture
def executor(client: ModelClient, recorded: RecordedCache) -> Executor:
    return Executor(client, recorded, EventRecorder(client))


def make_job(uid: str = UID, *, attempt: int = 0) -> Object:
    metadata = {"namespace": "default", "name": "digits", "uid": uid, "generation": 1}
    status = {"observedGeneration": -1, "attempt": attempt, "round": 0}
    return {"kind": "TrainJob", "metadata": metadata, "spec": {}, "status": status}


def make_old(uid: str = "uid-old", **spec: Any) -> Object:
    """A pod to delete."""
    return {"kind": "Pod", "metadata": {"namespace": "default", "name": "old", "uid": uid}, "spec": spec}


def make_child(policy: ChildPolicy, name: str, **body: Any) -> Create:
    metadata = {"namespace": "default", "name": name, "ownerReferences": [JOB_OWNER]}
    return Create(policy, name, lambda: {"kind": policy.kind, "metadata": metadata, "spec": {}, **body})


def make_pod(name: str) -> Create:
    return make_child(policies.POD, name)


def make_secret(name: str, owner: str) -> Create:
    body = {"kind": "Secret", "metadata": {"namespace": "default", "name": name}, "stringData": {"token": "f00d"}}
    return Create(policies.SECRET, name, lambda: body, owner=owner)


INPUT = make_child(policies.INPUT, "input", data={"job.json": "{}"}, immutable=True)
SECRET = make_secret("auth", "input")


async def test_removing_a_field_works_whether_it_exists_or_not(executor: Executor, client: ModelClient) -> None:
    write = StatusWrite(fields={"bestCheckpoint": None, "phase": "Running"}, tests={})
    await executor.execute(KEY, UID, Plan(status=write))
    assert client.asked[0].body == [
        {"op": "add", "path": "/status/bestCheckpoint", "value": {}},
        {"op": "remove", "path": "/status/bestCheckpoint"},
        {"op": "add", "path": "/status/phase", "value": "Running"},
    ]


FULL_PLAN = Plan(
    status=WRITE,
    creates=(make_pod("head"), SECRET, INPUT, make_child(policies.NETWORK_POLICY, "policy"), make_pod("worker")),
    deletes=(Delete("old", "uid-old"),),
    events=(Event("Normal", "Created", "Starting"),),
)


async def test_the_order_is_status_deletes_prerequisites_pods_events(
    client: ModelClient, executor: Executor, recorded: RecordedCache
) -> None:
    await executor.execute(KEY, UID, FULL_PLAN)
    requests = [(r.verb, r.plural) for r in client.asked]
    assert requests[:2] == [("patch/status", "trainjobs"), ("delete", "pods")]
    assert sorted(requests[2:4]) == [("create", "configmaps"), ("create", "networkpolicies")]
    assert requests[4] == ("create", "secrets"), "after its owner"
    assert requests[5:] == [("create", "pods"), ("create", "pods"), ("create", "events")]
    assert recorded.jobs == [client.api.objects[PLACE]]
    assert recorded.jobs[0]["status"]["attempt"] == 1
    assert recorded.pods == ["head", "worker"]


async def test_the_status_is_written_by_compare_and_set(client: ModelClient, executor: Executor) -> None:
    await executor.execute(KEY, UID, Plan(status=WRITE))
    assert client.asked[0].path == "/apis/railhead.dev/v1alpha1/namespaces/default/trainjobs/digits/status"
    assert client.asked[0].body == [
        {"op": "test", "path": "/metadata/uid", "value": UID},
        {"op": "test", "path": "/status/attempt", "value": 0},
        {"op": "add", "path": "/status/phase", "value": "Pending"},
        {"op": "add", "path": "/status/attempt", "value": 1},
    ]


CHANGED = make_job(attempt=2)
UNCHANGED = make_job()
SUCCESSOR = make_job("another")


@pytest.mark.parametrize(
    ("fault", "job", "raised"),
    [
        (RetryAfter(0, "NoAnswer", "connection reset"), UNCHANGED, RetryAfter),
        (RetryAfter(429, "TooManyRequests", "slow down", seconds=3), UNCHANGED, RetryAfter),
        (None, None, LostCompare),
        (None, CHANGED, LostCompare),
        (None, SUCCESSOR, LostCompare),
        (REJECTED, None, LostCompare),
        (REJECTED, UNCHANGED, Denied),
        (Denied(403, "Forbidden", "not allowed"), UNCHANGED, Denied),
        (Conflict(409, "Conflict", "the object has been modified"), CHANGED, LostCompare),
    ],
)
async def test_nothing_is_done_after_a_failed_status_write(
    client: ModelClient, executor: Executor, fault: KubeError | None, job: Object | None, raised: type[Exception]
) -> None:
    client.api.remove(PLACE)
    if job is not None:
        client.api.put(job)
    client.faults.script["patch/status", "digits"] = [fault]
    with pytest.raises(raised):
        await executor.execute(KEY, UID, FULL_PLAN)
    assert {r.verb for r in client.asked if r.plural != "events"} <= {"patch/status", "get"}


STATUS = ("patch/status", "digits")
WORDS = 'admission webhook "guard.example.com" denied the request: no changes today'


@pytest.mark.parametrize(
    "fault",
    [
        Denied(403, "Forbidden", WORDS),
        Denied(422, "Invalid", f"status.phase: Invalid value: {WORDS}"),
        Conflict(409, "Conflict", WORDS),
        Gone(404, "NotFound", WORDS),
        RetryAfter(500, "InternalError", WORDS),
        RetryAfter(429, "TooManyRequests", WORDS),
    ],
    ids=lambda fault: str(fault.status),
)
async def test_a_denied_change_of_the_status_is_an_event_with_the_words_of_the_api_server(
    client: ModelClient, executor: Executor, fault: KubeError
) -> None:
    """Once, however often it is denied."""
    client.faults.script[STATUS] = [fault, fault, fault]
    for _ in range(3):
        with pytest.raises(type(fault)):
            await executor.execute(KEY, UID, FULL_PLAN)
    [event] = [obj for (plural, _, _), obj in client.api.objects.items() if plural == "events"]
    assert (event["type"], event["reason"], event["count"]) == ("Warning", "StatusDenied", 3)
    assert WORDS in event["message"]


async def test_a_job_that_changes_while_its_status_is_written_has_no_event(
    client: ModelClient, executor: Executor
) -> None:
    client.api.put(CHANGED)
    with pytest.raises(LostCompare):
        await executor.execute(KEY, UID, FULL_PLAN)
    assert not [place for place in client.api.objects if place[0] == "events"]


async def test_a_job_has_changed_when_it_lacks_the_parent_of_a_tested_field(executor: Executor) -> None:
    write = StatusWrite(fields={"phase": "Pending"}, tests={"/status/budget/successes": 1})
    with pytest.raises(LostCompare):
        await executor.execute(KEY, UID, Plan(status=write))


async def test_a_deleted_job_is_dropped_from_the_cache(
    client: ModelClient, executor: Executor, recorded: RecordedCache
) -> None:
    client.api.remove(PLACE)
    with pytest.raises(LostCompare, match=r"^the job is gone$"):
        await executor.execute(KEY, UID, FULL_PLAN)
    assert recorded.gone == [(KEY, UID)]


async def test_a_job_stays_cached_when_its_kind_is_unknown_for_a_moment(
    client: ModelClient, executor: Executor, recorded: RecordedCache
) -> None:
    unknown = Gone(404, "NotFound", "the server could not find the requested resource")
    client.faults.script["patch/status", "digits"] = [unknown]
    changed = client.api.put(CHANGED)
    with pytest.raises(LostCompare):
        await executor.execute(KEY, UID, FULL_PLAN)
    assert not recorded.gone and recorded.jobs == [changed]


async def test_a_pod_does_not_count_as_lost_while_the_api_server_has_it(
    client: ModelClient, executor: Executor, recorded: RecordedCache
) -> None:
    labels = {names.LABEL_JOB_UID: UID, names.LABEL_ROLE: names.HEAD, names.LABEL_ATTEMPT: "1"}
    head = names.head_name("digits", UID, 1)
    metadata = {"namespace": "default", "name": head, "labels": labels, "ownerReferences": [JOB_OWNER]}
    client.api.put({"kind": "Pod", "metadata": metadata})
    plan = Plan(status=StatusWrite(fields={"phase": "Restarting"}, tests={}, pods=frozenset({"w"})))
    with pytest.raises(LostCompare):
        await executor.execute(KEY, UID, plan)
    assert recorded.pods == [head]
    assert not client.names("patch/status")


async def test_a_job_that_another_client_changed_is_cached(
    client: ModelClient, executor: Executor, recorded: RecordedCache
) -> None:
    changed = client.api.put(CHANGED)
    with pytest.raises(LostCompare, match=r"^the job changed since it was observed$"):
        await executor.execute(KEY, UID, FULL_PLAN)
    assert recorded.jobs == [changed]


async def test_a_delete_has_the_pods_uid_as_precondition(client: ModelClient, executor: Executor) -> None:
    await executor.execute(KEY, UID, Plan(deletes=(Delete("old", "uid-old"), Delete("b", "uid-b"))))
    first, second = sorted((r.body for r in client.asked), key=lambda b: str(b["preconditions"]["uid"]), reverse=True)
    assert first["preconditions"] == {"uid": "uid-old"}
    assert second["preconditions"] == {"uid": "uid-b"}
    assert "gracePeriodSeconds" not in first, "the pod's own value applies"


async def test_a_job_is_deleted_only_in_the_observed_version(
    client: ModelClient, executor: Executor, recorded: RecordedCache
) -> None:
    version = int(client.api.objects[PLACE]["metadata"]["resourceVersion"])
    with pytest.raises(LostCompare):
        await executor.execute(KEY, UID, Plan(delete_job=DeleteJob(UID, version - 1)))
    with pytest.raises(LostCompare):
        await executor.execute(KEY, "uid-old", Plan(delete_job=DeleteJob("uid-old", version)))
    assert recorded.jobs == [client.api.objects[PLACE]] * 2
    await executor.execute(KEY, UID, Plan(delete_job=DeleteJob(UID, version)))
    assert PLACE not in client.api.objects
    with pytest.raises(LostCompare):  # already deleted by another client
        await executor.execute(KEY, UID, Plan(delete_job=DeleteJob(UID, version)))
    assert recorded.gone == [(KEY, UID)]


async def test_a_job_that_is_not_deleted_and_did_not_change_raises_the_error_of_the_delete(
    client: ModelClient, executor: Executor
) -> None:
    version = int(client.api.objects[PLACE]["metadata"]["resourceVersion"])
    unknown = Gone(404, "NotFound", "the server could not find the requested resource")
    client.faults.script["delete", "digits"] = [unknown]
    with pytest.raises(Gone) as raised:
        await executor.execute(KEY, UID, Plan(delete_job=DeleteJob(UID, version)))
    assert raised.value is unknown


async def test_a_deleted_job_with_a_finalizer_is_cached_as_deleting(
    client: ModelClient, executor: Executor, recorded: RecordedCache
) -> None:
    client.api.patch(PLACE, {"metadata": {"finalizers": ["example.com/keep"]}})
    version = int(client.api.objects[PLACE]["metadata"]["resourceVersion"])
    await executor.execute(KEY, UID, Plan(delete_job=DeleteJob(UID, version)))
    assert [bool(job["metadata"].get("deletionTimestamp")) for job in recorded.jobs] == [True]


async def test_removed_children_may_be_gone_and_the_status_is_written_last(
    client: ModelClient, executor: Executor
) -> None:
    client.api.put(make_owned_object("Service", "digits"))
    removes = (Remove("ConfigMap", "digits-input"), Remove("Service", "digits"))
    await executor.execute(KEY, UID, Plan(removes=removes, last=WRITE))
    assert client.names("delete") == ["digits"]
    assert client.asked[-1].verb == "patch/status"


def make_owned_object(kind: str, name: str, *, uid: str = UID) -> Object:
    owner = {**JOB_OWNER, "uid": uid}
    return {"kind": kind, "metadata": {"namespace": "default", "name": name, "ownerReferences": [owner]}, "spec": {}}


async def test_a_removal_names_the_uid_that_was_looked_at(client: ModelClient, executor: Executor) -> None:
    client.api.put(make_owned_object("Service", "digits"))
    await executor.execute(KEY, UID, Plan(removes=(Remove("Service", "digits"),)))
    [_, deleted] = client.asked
    assert deleted.body["preconditions"] == {"uid": "uid-digits"}


async def test_a_child_that_was_replaced_meanwhile_is_looked_at_again(client: ModelClient, executor: Executor) -> None:
    client.api.put(make_owned_object("Service", "digits", uid="another job"))
    client.faults.script["delete", "digits"] = [Conflict(409, "Conflict", "the UID in the precondition differs")]
    await executor.execute(KEY, UID, Plan(removes=(Remove("Service", "digits"),)))
    assert client.api.objects["services", "default", "digits"]


@pytest.mark.parametrize("is_shared", [False, True])
async def test_an_object_of_somebody_else_is_never_removed(
    client: ModelClient, executor: Executor, is_shared: bool
) -> None:
    client.api.put(make_owned_object("ConfigMap", "theirs", uid="another job"))
    await executor.execute(KEY, UID, Plan(removes=(Remove("ConfigMap", "theirs", is_shared),)))
    assert client.names("delete") == []
    assert client.api.objects["configmaps", "default", "theirs"]


async def test_the_last_status_is_not_written_when_a_removal_fails(client: ModelClient, executor: Executor) -> None:
    client.api.put(make_owned_object("Service", "digits"))
    client.faults.script["delete", "digits"] = [RetryAfter(503, "ServiceUnavailable", "no")]
    with pytest.raises(KubeError):
        await executor.execute(KEY, UID, Plan(removes=(Remove("Service", "digits"),), last=WRITE))
    assert client.names("patch/status") == []


@pytest.mark.parametrize("existing", [[], [make_old(uid="another")]], ids=["gone", "another"])
async def test_a_pod_that_is_gone_or_was_replaced_counts_as_deleted(
    client: ModelClient, executor: Executor, existing: list[Object]
) -> None:
    for pod in existing:
        client.api.put(pod)
    await executor.execute(KEY, UID, replace(FULL_PLAN, status=None))
    assert client.names("create", "pods") == ["head", "worker"]
    assert [place[2] for place in client.api.objects if place[0] == "pods"] == [
        *("old" for _ in existing),
        "head",
        "worker",
    ]


async def test_a_terminating_pod_is_cached(client: ModelClient, executor: Executor, recorded: RecordedCache) -> None:
    client.api.put(make_old(nodeName="node-1"))
    await executor.execute(KEY, UID, Plan(deletes=(Delete("old", "uid-old"),)))
    assert recorded.pods == ["old"]


async def test_an_unanswered_delete_stops_the_plan(client: ModelClient, executor: Executor) -> None:
    client.faults.script["delete", "old"] = [RetryAfter(0, "NoAnswer", "reset")]
    with pytest.raises(RetryAfter):
        await executor.execute(KEY, UID, replace(FULL_PLAN, status=None))
    assert client.names("create") == []


async def test_an_existing_pod_of_the_job_is_adopted_and_cached(
    client: ModelClient, executor: Executor, recorded: RecordedCache
) -> None:
    head = make_pod("head")
    client.api.put(dict(head.build()))
    await executor.execute(KEY, UID, Plan(creates=(head, make_pod("worker"))))
    assert sorted(recorded.pods) == ["head", "worker"]


async def test_a_foreign_pod_with_our_name_is_reported_and_not_adopted(
    client: ModelClient, executor: Executor, recorded: RecordedCache
) -> None:
    client.api.put({"kind": "Pod", "metadata": {"namespace": "default", "name": "head"}})
    with pytest.raises(ChildRejected, match=r"head .* that this TrainJob does not own"):
        await executor.execute(KEY, UID, Plan(creates=(make_pod("head"),)))
    assert recorded.pods == []


async def test_an_existing_secret_is_used_and_never_read(client: ModelClient, executor: Executor) -> None:
    client.api.put(dict(SECRET.build()))
    await executor.execute(KEY, UID, Plan(creates=(SECRET, INPUT, make_pod("head"))))
    assert [r.verb for r in client.asked] == ["create"] * 3


@pytest.mark.parametrize("name", ["auth", "head"])
async def test_a_quota_conflict_does_not_count_as_an_existing_child(
    client: ModelClient, executor: Executor, name: str
) -> None:
    quota = Conflict(409, "Conflict", 'Operation cannot be fulfilled on resourcequotas "q": try again')
    client.faults.script["create", name] = [quota]
    with pytest.raises(Conflict):
        await executor.execute(KEY, UID, Plan(creates=(SECRET, INPUT, make_pod("head"))))
    assert client.names("get") == []


async def test_no_pod_is_created_before_its_prerequisites(client: ModelClient, executor: Executor) -> None:
    client.faults.script["create", "auth"] = [RetryAfter(503, "ServiceUnavailable", "starting")]
    with pytest.raises(RetryAfter):
        await executor.execute(KEY, UID, Plan(creates=(make_pod("head"), SECRET, INPUT)))
    assert client.names("create", "pods") == []


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Denied(403, "Forbidden", 'pods "head" is forbidden: exceeded quota: pods'), "QuotaExceeded"),
        (
            Denied(403, "Forbidden", 'pods "head" is forbidden: violates PodSecurity "restricted"'),
            "PodSecurityViolated",
        ),
        (Denied(400, "BadRequest", 'admission webhook "x.example" denied the request: no'), "AdmissionDenied"),
        (Denied(422, "Invalid", 'Pod "head" is invalid: spec.containers[0].name'), "PodInvalid"),
        (Denied(403, "Forbidden", "cannot create resource pods"), "CreateRefused"),
        (Gone(404, "NotFound", 'namespaces "x" not found'), "NamespaceTerminating"),
        (RetryAfter(500, "InternalError", 'failed calling webhook "x.example": refused'), "AdmissionWebhookFailed"),
    ],
)
async def test_a_rejected_pod_is_reported_with_the_message_of_whoever_rejects_it(
    client: ModelClient, executor: Executor, recorded: RecordedCache, answer: KubeError, reason: str
) -> None:
    client.faults.script["create", "head"] = [answer]
    with pytest.raises(ChildRejected) as caught:
        await executor.execute(KEY, UID, replace(FULL_PLAN, status=None))
    assert caught.value.problem == Problem(reason, f"Pod head was rejected: {answer.message}")
    assert "head" in client.names("create")
    assert recorded.pods == [], "the pods that follow are not sent"
    events = [r.body["reason"] for r in client.asked if r.plural == "events"]
    assert events == ["Created"], "the decision stands"


@pytest.mark.parametrize("status", [500, 503])
async def test_a_failing_api_server_does_not_count_as_a_rejection(
    client: ModelClient, executor: Executor, status: int
) -> None:
    client.faults.script["create", "head"] = [RetryAfter(status, "", "etcd is away")]
    with pytest.raises(RetryAfter):
        await executor.execute(KEY, UID, replace(FULL_PLAN, status=None))


SILENT = PodView("head", "uid-head", "head", 1)


def make_event(name: str, uid: str, message: str, *, reason: str = "FailedMount") -> Object:
    metadata, about = {"namespace": "default", "name": name}, {"kind": "Pod", "uid": uid}
    content = {"type": "Warning", "reason": reason, "message": message, "lastTimestamp": "2026-01-01T12:00:00Z"}
    return {"kind": "Event", "metadata": metadata, "involvedObject": about, **content}


async def test_a_pods_events_are_listed_by_its_uid(client: ModelClient, executor: Executor) -> None:
    client.api.put(make_event("e1", "uid-head", 'secret "keys" not found'))
    client.api.put(make_event("e2", "uid-other", "of another pod"))
    client.api.put(make_event("e3", "uid-head", "assigned to node-1", reason="Scheduled"))
    found = await executor.look_up_events(KEY, SILENT)
    assert found.problem == Problem("FailedMount", 'secret "keys" not found')
    [request] = client.asked
    assert request.path.startswith("/api/v1/namespaces/default/events?")
    assert "fieldSelector=involvedObject.uid%3Duid-head&" in request.path, "Normal ones show that it was mounted since"


async def test_an_operator_without_access_to_events_works_without_them(client: ModelClient, executor: Executor) -> None:
    client.faults.script["list", "events"] = [Denied(403, "Forbidden", "cannot list"), RetryAfter(503, "", "away")]
    assert (await executor.look_up_events(KEY, SILENT)).problem is None
    with pytest.raises(RetryAfter):
        await executor.look_up_events(KEY, SILENT)


@pytest.mark.parametrize("exists", [False, True])
async def test_a_secret_is_owned_by_the_input_of_the_same_plan(
    client: ModelClient, executor: Executor, exists: bool
) -> None:
    if exists:
        await executor.execute(KEY, UID, Plan(creates=(INPUT,)))
    await executor.execute(KEY, UID, Plan(creates=(SECRET, INPUT)))
    owner = client.api.objects["configmaps", "default", "input"]["metadata"]["uid"]
    made = client.api.objects["secrets", "default", "auth"]["metadata"]["ownerReferences"]
    assert made == [{"apiVersion": "v1", "kind": "ConfigMap", "name": "input", "uid": owner}]


MISSING = Gone(404, "NotFound", "the server could not find the requested resource")


def make_pod_group(api_version: str, *, older: Create | None = None) -> Create:
    return replace(make_child(policies.POD_GROUP, "gang", apiVersion=api_version), older=older)


@pytest.mark.parametrize("served", ["scheduling.k8s.io/v1beta1", "scheduling.k8s.io/v1alpha2"])
async def test_the_newest_version_of_a_pod_group_is_created_that_the_api_server_serves(
    client: ModelClient, executor: Executor, served: str
) -> None:
    client.faults.script["create", "gang"] = [] if served.endswith("v1beta1") else [MISSING]
    older = make_pod_group("scheduling.k8s.io/v1alpha2")
    creates = (make_pod("head"), make_pod_group("scheduling.k8s.io/v1beta1", older=older))
    await executor.execute(KEY, UID, Plan(creates=creates))
    *_, group, pod = client.asked
    assert group.path == f"/apis/{served}/namespaces/default/podgroups"
    assert pod.name == "head", "it must not be scheduled by itself before its group exists"


async def test_no_pod_starts_without_the_gang_scheduler_and_the_job_says_which_is_missing(
    client: ModelClient, executor: Executor
) -> None:
    client.faults.script["create", "gang"] = [MISSING]
    creates = (make_pod_group("scheduling.x-k8s.io/v1alpha1"), make_pod("head"))
    with pytest.raises(ChildRejected) as caught:
        await executor.execute(KEY, UID, Plan(creates=creates))
    assert caught.value.problem.reason == "SchedulerMissing"
    assert "no podgroups of scheduling.x-k8s.io. Install the scheduler" in caught.value.problem.message
    assert client.names("create", "pods") == []


async def test_a_workload_is_removed_only_as_it_was_observed(client: ModelClient, executor: Executor) -> None:
    """An administrator may have set spec.active to false meanwhile: a new Workload would undo that."""
    owner = {
        "apiVersion": "railhead.dev/v1alpha1",
        "kind": "TrainJob",
        "name": "digits",
        "uid": UID,
        "controller": True,
    }
    place = ("workloads", "default", "digits")
    body = {"metadata": {"name": "digits", "ownerReferences": [owner]}, "spec": {}}
    seen = client.api.create(place, body)["metadata"]["resourceVersion"]
    held = client.api.patch(place, {"spec": {"active": False}})
    await executor.execute(KEY, UID, Plan(removes=(Remove("Workload", "digits", version=seen),)))
    assert place in client.api.objects
    now = held["metadata"]["resourceVersion"]
    await executor.execute(KEY, UID, Plan(removes=(Remove("Workload", "digits", version=now),)))
    assert place not in client.api.objects


FORGETS = Plan(status=WRITE, forgotten=(Remove("ConfigMap", "digits-input"),))


def put_old_input(client: ModelClient) -> None:
    metadata = {"namespace": "default", "name": "digits-input", "ownerReferences": [JOB_OWNER]}
    client.api.put({"kind": "ConfigMap", "metadata": metadata})


async def test_what_the_status_forgets_is_removed_before_it_does(client: ModelClient, executor: Executor) -> None:
    put_old_input(client)
    await executor.execute(KEY, UID, FORGETS)
    writes = [request.verb for request in client.asked if request.verb in WRITES]
    assert writes == ["patch/status", "delete", "patch/status"]
    assert client.api.objects[PLACE]["status"]["attempt"] == 1


async def test_a_view_that_is_out_of_date_removes_nothing_that_it_would_forget(
    client: ModelClient, executor: Executor
) -> None:
    put_old_input(client)
    outdated = replace(FORGETS, status=replace(WRITE, tests={**WRITE.tests, "/status/attempt": 7}))
    with pytest.raises(LostCompare):
        await executor.execute(KEY, UID, outdated)
    assert not client.names("delete")


async def test_a_denied_removal_keeps_no_status_from_being_written(
    client: ModelClient, executor: Executor, recorded: RecordedCache
) -> None:
    put_old_input(client)
    client.api.deletion = lambda obj: "no changes today"
    await executor.execute(KEY, UID, FORGETS)
    assert client.api.objects[PLACE]["status"]["attempt"] == 1
    assert [(kind, name) for kind, name, _ in recorded.denied] == [("ConfigMap", "digits-input")]


async def test_an_object_that_is_created_is_no_more_one_that_may_not_be_deleted(
    executor: Executor, recorded: RecordedCache
) -> None:
    await executor.execute(KEY, UID, Plan(creates=(make_pod_group("scheduling.k8s.io/v1alpha2"),)))
    assert recorded.deleted == ["gang"]


async def test_a_pod_group_is_removed_in_its_version(client: ModelClient, executor: Executor) -> None:
    group = make_pod_group("scheduling.k8s.io/v1alpha2")
    await executor.execute(KEY, UID, Plan(creates=(group,)))
    remove = Remove("PodGroup", "gang", api_versions=("scheduling.k8s.io/v1beta1", "scheduling.k8s.io/v1alpha2"))
    await executor.execute(KEY, UID, Plan(removes=(remove,)))
    assert client.asked[-1].path.startswith("/apis/scheduling.k8s.io/v1alpha2/")
    assert ("podgroups", "default", "gang") not in client.api.objects


async def test_a_large_plan_sends_a_few_requests_at_a_time(client: ModelClient, executor: Executor) -> None:
    workers = tuple(make_pod(f"w{n}") for n in range(100))
    await executor.execute(KEY, UID, Plan(creates=workers))
    assert len(client.names("create")) == 100
    assert 1 < client.most_at_once <= MOST_AT_A_TIME


@pytest.mark.parametrize(("refused", "sent"), [(0, 1), (1, 3), (90, 90 + MOST_AT_A_TIME)])
async def test_a_gang_that_a_quota_rejects_stops_at_the_first_refusal(
    client: ModelClient, executor: Executor, refused: int, sent: int
) -> None:
    for number in range(refused, 400):
        client.faults.script["create", f"w{number}"] = [Denied(403, "Forbidden", "exceeded quota: gpus")]
    workers = tuple(make_pod(f"w{n}") for n in range(400))
    with pytest.raises(ChildRejected):
        await executor.execute(KEY, UID, Plan(creates=workers))
    names_ = client.names("create")
    assert refused < len(names_) <= sent
    assert names_ == [f"w{n}" for n in range(len(names_))]


async def test_a_child_of_the_namespace_is_sent_once_for_many_jobs(client: ModelClient, executor: Executor) -> None:
    metadata = {"namespace": "default", "name": "driver", "labels": {"app.kubernetes.io/managed-by": "railhead"}}
    shared = Create(policies.DRIVER, "driver", lambda: {"kind": "ConfigMap", "metadata": metadata})
    await executor.execute(KEY, UID, Plan(creates=(shared,)))
    await executor.execute(KEY, UID, Plan(creates=(shared,)))
    assert client.names("create") == ["driver"]
    await executor.execute(KEY, UID, Plan(removes=(Remove("ConfigMap", "driver", is_shared=True),)))
    await executor.execute(KEY, UID, Plan(creates=(shared,)))
    assert client.names("create") == ["driver"] * 2, "it was removed"


async def test_jobs_that_start_at_once_read_and_send_a_child_of_the_namespace_once(
    client: ModelClient, executor: Executor
) -> None:
    metadata = {"namespace": "default", "name": "driver", "labels": {"app.kubernetes.io/managed-by": "railhead"}}
    shared = Create(policies.DRIVER, "driver", lambda: {"kind": "ConfigMap", "metadata": metadata})
    jobs = [JobKey("default", f"job-{number}") for number in range(40)]
    await asyncio.gather(*(executor.execute(job, UID, Plan(creates=(shared,))) for job in jobs))
    assert client.names("get") == client.names("create") == ["driver"]


async def test_executing_a_plan_again_after_lost_responses_creates_the_same_names(
    client: ModelClient, executor: Executor, recorded: RecordedCache
) -> None:
    first_plan = plan(make_observed())
    await executor.execute(KEY, UID, first_plan)
    first = client.names("create")
    client.asked.clear()
    successor = Executor(client, recorded, EventRecorder(client))
    await successor.execute(KEY, UID, replace(first_plan, status=None))
    shared = {names.HEADS_SERVICE, SETTINGS.bundle_name}
    assert sorted(client.names("create")) == sorted(set(first) - shared)
    assert shared <= set(first) and shared <= set(client.names("get"))
    assert len(set(first)) == len(first)


WORKLOAD = ("workloads", "default", "digits-0f1e2d")
FIELDS: dict[str, dict[str, Any]] = {"metadata": {"annotations": {"a": "b"}}, "spec": {"active": False}}


async def test_a_workload_is_changed_in_the_version_that_was_seen_and_its_answer_cached(
    executor: Executor, client: ModelClient, recorded: RecordedCache
) -> None:
    created = client.api.create(WORKLOAD, {"metadata": {"name": WORKLOAD[2]}, "spec": {"active": True}})
    version = created["metadata"]["resourceVersion"]
    await executor.execute(KEY, UID, Plan(workload=policies.WorkloadPatch(WORKLOAD[2], version, FIELDS)))
    assert client.api.objects[WORKLOAD]["spec"] == {"active": False}
    assert [raw["metadata"]["annotations"] for raw in recorded.workloads] == [{"a": "b"}]


async def test_a_quota_is_asked_in_the_namespace_of_the_job(executor: Executor, client: ModelClient) -> None:
    await executor.execute(KEY, UID, Plan(creates=(make_child(policies.QUOTA_PROBE, "probe"),)))
    [request] = client.asked
    assert request.path.startswith("/api/v1/namespaces/default/pods?dryRun=All")


@pytest.mark.parametrize(("subresource", "end"), [("", WORKLOAD[2]), ("status", f"{WORKLOAD[2]}/status")])
async def test_a_workloads_status_is_changed_as_its_subresource(
    executor: Executor, client: ModelClient, subresource: Literal["", "status"], end: str
) -> None:
    created = client.api.create(WORKLOAD, {"metadata": {"name": WORKLOAD[2]}, "spec": {"active": True}, "status": {}})
    patch = policies.WorkloadPatch(WORKLOAD[2], created["metadata"]["resourceVersion"], FIELDS, subresource)
    await executor.execute(KEY, UID, Plan(workload=patch))
    [request] = client.asked
    assert request.path.endswith(f"/namespaces/default/workloads/{end}")


async def test_a_denied_change_of_a_workload_keeps_no_pod_from_being_created(
    executor: Executor, client: ModelClient, recorded: RecordedCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def deny(*args: Any, **options: Any) -> Object:
        raise Denied(403, "Forbidden", 'admission webhook "w.example" denied the request: no')

    monkeypatch.setattr(client, "patch", deny)
    change = policies.WorkloadPatch(WORKLOAD[2], "1", FIELDS)
    await executor.execute(KEY, UID, Plan(workload=change, creates=(make_pod("worker"),)))
    assert [(kind, name) for kind, name, _ in recorded.denied] == [("Workload", WORKLOAD[2])]
    assert recorded.pods == ["worker"]


async def test_a_workload_that_is_gone_makes_the_pass_start_again(executor: Executor) -> None:
    gone = f'404 NotFound: workloads "{WORKLOAD[2]}" not found'
    with pytest.raises(LostCompare, match=f"^Workload {WORKLOAD[2]} changed since it was observed: {gone}$"):
        await executor.execute(KEY, UID, Plan(workload=policies.WorkloadPatch(WORKLOAD[2], "1", FIELDS)))


async def test_a_workload_that_cannot_be_changed_holds_up_nothing_else(executor: Executor, client: ModelClient) -> None:
    """As while Kueue is down, whose webhooks then fail, and the job needs a new pod."""
    client.faults.script["patch", WORKLOAD[2]] = [RetryAfter(500, "", 'failed calling webhook "vworkload.kb.io"')]
    patch = policies.WorkloadPatch(WORKLOAD[2], "1", FIELDS)
    await executor.execute(KEY, UID, replace(FULL_PLAN, status=None, workload=patch))
    assert {"head", "worker"} <= set(client.names("create"))
    assert [r.body["reason"] for r in client.asked if r.plural == "events"] == ["Created"]
