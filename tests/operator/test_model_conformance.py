"""The API server of tests/model answers as the real one does, request by request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from railhead.contract.report import AUDIENCE
from railhead.controller.report.authority import read_review
from railhead.kube.client import METADATA_ONLY
from railhead.kube.errors import KubeError
from railhead.kube.kinds import LOCAL_QUEUE, POD_GROUP, RESOURCE_FLAVOR, WORKLOAD, WORKLOAD_PRIORITY_CLASS
from tests.api.server import MERGE_PATCH, ApiServer
from tests.model.api_server import ModelApiServer, Object
from tests.model.discovery import KINDS, VERBS
from tests.operator.cluster import JOBS, Cluster
from tests.unit.builders import NOW
from tests.waiting import wait_until

# Groups are off by default, and which version is served depends on the cluster; the others are Kueue's.
OPTIONAL = {LOCAL_QUEUE, POD_GROUP, WORKLOAD, RESOURCE_FLAVOR, WORKLOAD_PRIORITY_CLASS}
JSON, JSON_PATCH = "application/json", "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
Answer = tuple[int, Object]
Ask = Callable[..., Answer]


def ask_real(server: ApiServer) -> Ask:
    def ask(method: str, path: str, body: Any = None, content_type: str = JSON, accept: str = JSON) -> Answer:
        path, _, query = path.partition("?")
        options = dict(part.split("=", 1) for part in query.split("&")) if query else {}
        answer = server.request(method, path, body, content_type=content_type, accept=accept, **options)
        return (200 if answer.status < 300 else answer.status), answer.body

    return ask


def ask_model(api: ModelApiServer) -> Ask:
    def ask(method: str, path: str, body: Any = None, content_type: str = JSON, accept: str = JSON) -> Answer:
        try:
            return 200, api.request(method, path, body, content_type=content_type, accept=accept)
        except KubeError as error:
            return error.status, {"reason": error.reason}

    return ask


class Recorder:
    """Sends requests, and keeps of each answer what the operator may rely on."""

    def __init__(self, ask: Ask, namespace: str) -> None:
        self._ask = ask
        self.namespace = namespace
        self.answers: list[Any] = []
        self._versions: dict[str, str] = {}

    def __call__(self, what: str, method: str, path: str, body: Any = None, *more: str) -> Object:
        """`more` are the types of the content and of the answer."""
        code, answer = self._ask(method, path, body, *more)
        metadata = answer.get("metadata") or {}
        name, version = str(metadata.get("name")), str(metadata.get("resourceVersion"))
        self.answers.append(
            {
                "what": what,
                "code": code,
                "reason": answer.get("reason") if code >= 400 else None,
                "kind": answer.get("kind") if metadata.get("name") else None,
                "generation": metadata.get("generation") if answer.get("kind") == "TrainJob" else None,
                "is new version": version != self._versions.get(name) if code < 400 else None,
                "is deleting": "deletionTimestamp" in metadata,
                "finalizers": metadata.get("finalizers"),
                "grace": metadata.get("deletionGracePeriodSeconds"),
                "status": answer.get("status") if answer.get("kind") == "TrainJob" else None,
                "scaling": (answer.get("spec") or {}).get("scaling", {}).get("desiredWorkers"),
            }
        )
        if code < 400:
            self._versions[name] = version
        return answer


def build_job(name: str, **metadata: Any) -> Object:
    """The operator that runs next to the test leaves it alone."""
    spec = {
        "image": "registry.example/train:1",
        "trainer": {"trainFunc": "steps:train_func"},
        "scaling": {"minWorkers": 1, "maxWorkers": 4},
        "run": {"storagePath": "/runs"},
        "managedBy": "other.example/operator",
    }
    metadata = {"name": name, **metadata}
    return {"apiVersion": "railhead.dev/v1alpha1", "kind": "TrainJob", "metadata": metadata, "spec": spec}


def record_jobs(record: Recorder) -> Object:
    """A TrainJob from its creation on, with all the patches that the operator and users make."""
    jobs = JOBS.format(record.namespace)
    body = {**build_job("twin"), "status": {"attempt": 7}}
    job = record("a status given at the creation is dropped", "POST", jobs, body)
    record("a second one with this name", "POST", jobs, body)
    record("one that does not exist", "GET", f"{jobs}/nobody")
    path, status = f"{jobs}/twin", f"{jobs}/twin/status"
    uid = {"op": "test", "path": "/metadata/uid", "value": job["metadata"]["uid"]}
    phase = {"op": "add", "path": "/status/phase", "value": "Pending"}

    def patch(what: str, *operations: Object) -> None:
        record(what, "PATCH", status, list(operations), JSON_PATCH)

    patch("tests that hold", uid, {"op": "test", "path": "/status/attempt", "value": 0}, phase)
    patch("a test that does not hold", uid, {"op": "test", "path": "/status/attempt", "value": 3}, phase)
    patch("a test of what is not there", {"op": "test", "path": "/status/round/deep", "value": 0}, phase)
    patch("another uid", {**uid, "value": "00000000-0000-0000-0000-000000000000"}, phase)
    version = {"op": "test", "path": "/metadata/resourceVersion", "value": job["metadata"]["resourceVersion"]}
    patch("the version of the creation", version, phase)
    version["value"] = record("as it is now", "GET", path)["metadata"]["resourceVersion"]
    patch("the version of now", version, phase, {"op": "add", "path": "/status/round", "value": 0})
    patch("tests only", uid, {"op": "test", "path": "/status/phase", "value": "Pending"})
    patch("the same again", phase)
    patch("removes what is not there", {"op": "remove", "path": "/status/resize"})
    patch(
        "adds and removes",
        {"op": "add", "path": "/status/resize", "value": {}},
        {"op": "remove", "path": "/status/resize"},
    )
    both = {"spec": {"scaling": {"desiredWorkers": 2}}, "status": {"attempt": 5}}
    record("spec and status through the main path", "PATCH", path, both, MERGE_PATCH)
    both = {"spec": {"scaling": {"desiredWorkers": 3}}, "status": {"attempt": 5}}
    record("spec and status through the status path", "PATCH", status, both, MERGE_PATCH)
    record("no such job", "PATCH", f"{jobs}/nobody/status", [phase], JSON_PATCH)
    spec = {"op": "replace", "path": "/spec/scaling/desiredWorkers", "value": 4}
    record("the spec, by operations", "PATCH", path, [spec], JSON_PATCH)
    record("the spec at once", "PATCH", path, [{"op": "add", "path": "/spec", "value": body["spec"]}], JSON_PATCH)
    record("a label", "PATCH", path, {"metadata": {"labels": {"team": "a"}}}, MERGE_PATCH)
    other = "00000000-0000-0000-0000-000000000000"
    record("a label under another uid", "PATCH", path, {"metadata": {"uid": other, "labels": {"a": "b"}}}, MERGE_PATCH)
    found = record("only metadata", "GET", jobs, None, JSON, METADATA_ONLY)
    record.answers.append([(found["kind"], *(sorted(item) for item in found["items"]))])
    record("a field without selector support", "GET", f"{jobs}?fieldSelector=spec.image=x")
    found = record("selects by name", "GET", f"{jobs}?fieldSelector=metadata.name=twin")
    record.answers.append([item["metadata"]["name"] for item in found["items"]])
    return job


def record_pods(record: Recorder, owner: Object) -> None:
    """Pods: preconditions, grace, and selectors."""
    pods = f"/api/v1/namespaces/{record.namespace}/pods"
    reference = {"apiVersion": "railhead.dev/v1alpha1", "kind": "TrainJob", "name": "twin", "controller": True}
    references = [{**reference, "uid": owner["metadata"]["uid"], "blockOwnerDeletion": True}]

    def make(name: str, node: str | None = None, **labels: str) -> Object:
        container = {"name": "main", "image": "registry.example/train:1"}
        spec = {"containers": [container], **({"nodeName": node} if node else {}), "terminationGracePeriodSeconds": 40}
        metadata = {"name": name, "labels": {"twin": "yes", **labels}, "ownerReferences": references}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        return record(f"creates {name}", "POST", pods, body)

    def delete(what: str, name: str, uid: str = "", grace: int | None = None) -> None:
        options: Object = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        options |= {"preconditions": {"uid": uid}} if uid else {}
        options |= {"gracePeriodSeconds": grace} if grace is not None else {}
        record(what, "DELETE", f"{pods}/{name}", options)

    waiting, bound, ended, kept = (
        make("waiting"),
        make("bound", "node-x"),
        make("ended", "node-x"),
        make("kept", role="a"),
    )
    delete("another pod's uid", "waiting", uid=bound["metadata"]["uid"])
    delete("a pod without a node", "waiting", uid=waiting["metadata"]["uid"])
    record("is gone at once", "GET", f"{pods}/waiting")
    delete("a pod that is gone", "waiting", uid=waiting["metadata"]["uid"])
    delete("a pod on a node", "bound")
    delete("again", "bound")
    delete("with less time", "bound", grace=5)
    delete("with more time", "bound", grace=60)
    record("is still there", "GET", f"{pods}/bound")
    delete("with no time", "bound", grace=0)
    record("is gone now", "GET", f"{pods}/bound")
    done = {"status": {"phase": "Succeeded"}}
    other = {**done, "metadata": {"uid": bound["metadata"]["uid"]}}
    record("another one has ended", "PATCH", f"{pods}/ended/status", other, STRATEGIC)
    record("has ended", "PATCH", f"{pods}/ended/status", done, STRATEGIC)
    delete("a pod that has ended", "ended", uid=ended["metadata"]["uid"])
    record("is gone as well", "GET", f"{pods}/ended")
    for selector in ("twin", "twin=yes", "role=a", "role=b", "twin,role=a"):
        found = record(f"selects {selector}", "GET", f"{pods}?labelSelector={selector}")
        record.answers.append([item["metadata"]["name"] for item in found["items"]])
    assert kept


def record_finalizers(record: Recorder) -> None:
    """A job that a finalizer holds after its deletion."""
    jobs = JOBS.format(record.namespace)
    path = f"{jobs}/held"
    body = build_job("held", finalizers=["example.com/keep"])
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
    made = record("creates held", "POST", jobs, body)["metadata"]
    this = {"uid": made["uid"], "resourceVersion": made["resourceVersion"]}
    for field, other in (("uid", f"{made['uid'][:-1]}x"), ("resourceVersion", "1")):
        wanted = {**options, "preconditions": {**this, field: other}}
        record(f"another {field}", "DELETE", path, wanted)
    record("is deleted", "DELETE", path, {**options, "preconditions": this})
    record("again", "DELETE", path, options)
    record("is still there", "GET", path)
    record("has its name", "POST", jobs, body)
    phase = [{"op": "add", "path": "/status/phase", "value": "Pending"}]
    record("may change", "PATCH", f"{path}/status", phase, JSON_PATCH)
    for name in ("Suspending", "Suspended", "Pending"):
        phase = [{"op": "add", "path": "/status/phase", "value": name}]
        record(f"is {name}", "PATCH", f"{path}/status", phase, JSON_PATCH)
        record(f"its image in phase {name}", "PATCH", path, {"spec": {"image": f"a:{name.lower()}"}}, MERGE_PATCH)
        added = {"spec": {"head": {"resources": {"memory": f"{len(name)}Gi"}}, "suspend": name != "Suspended"}}
        record(f"its head in phase {name}", "PATCH", path, added, MERGE_PATCH)
    record("its finalizer is removed", "PATCH", path, {"metadata": {"finalizers": []}}, MERGE_PATCH)
    record("does not exist anymore", "GET", path)


def record_leases(record: Recorder) -> None:
    """Leases, with a compare of the version."""
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{record.namespace}/leases"
    path = f"{leases}/lead"
    body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "lead"}}
    lease = record("a lease", "POST", leases, {**body, "spec": {"holderIdentity": "a"}})
    record("a second one with this name", "POST", leases, body)
    version = lease["metadata"]["resourceVersion"]

    def hold(what: str, version: str, holder: str | None) -> Object:
        patch = {"metadata": {"resourceVersion": version}, "spec": {"holderIdentity": holder, "leaseTransitions": 1}}
        answer = record(what, "PATCH", path, patch, MERGE_PATCH)
        record.answers.append(answer.get("spec"))
        return answer

    newer = hold("under its version", version, "b")["metadata"]["resourceVersion"]
    hold("under an old version", version, "c")
    hold("is released", newer, None)
    record("is deleted", "DELETE", path, {})


def record_others(record: Recorder) -> None:
    """Secrets, Services, ConfigMaps and Events, as the operator uses them."""
    core = f"/api/v1/namespaces/{record.namespace}"
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"}, "stringData": {"token": "hidden"}}
    made = record("a secret with stringData", "POST", f"{core}/secrets", {**secret, "data": {"other": "AAA="}})
    record.answers.append((made["data"], "stringData" in made))
    changed = record("its data", "PATCH", f"{core}/secrets/keys", {"data": {"other": "AAE="}}, MERGE_PATCH)
    record.answers.append(changed["data"])
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "heads"}, "spec": {"clusterIP": "None"}}
    record("a service", "POST", f"{core}/services", service)
    record("a config map", "POST", f"{core}/configmaps", {"kind": "ConfigMap", "metadata": {"name": "code"}})
    for path in ("secrets/keys", "services/heads", "configmaps/code"):
        record(f"deletes {path}", "DELETE", f"{core}/{path}", {})
        record(f"deletes {path} again", "DELETE", f"{core}/{path}", {})
    for number, (type_, uid) in enumerate([("Warning", "one"), ("Normal", "one"), ("Warning", "two")]):
        metadata = {"name": f"event-{number}", "namespace": record.namespace}
        about = {"kind": "Pod", "namespace": record.namespace, "name": f"pod-{uid}", "uid": uid}
        event = {"metadata": metadata, "involvedObject": about, "type": type_, "reason": "FailedMount"}
        record(f"event-{number}", "POST", f"{core}/events", {"apiVersion": "v1", "kind": "Event", **event})
    again = {"message": "again", "count": 2}
    record("is counted", "PATCH", f"{core}/events/event-0", again, MERGE_PATCH)
    for selector in ("involvedObject.uid=one", "reason=Other"):
        found = record(f"selects {selector}", "GET", f"{core}/events?fieldSelector={selector}")
        mine = [item for item in found["items"] if item["metadata"]["name"].startswith("event-")]
        record.answers.append([item["metadata"]["name"] for item in mine])
    record("an unknown kind", "GET", f"{core}/nonsenses")


def record_pages(record: Recorder) -> None:
    """A paginated list is sorted, and all its pages have the version of the first."""
    jobs = JOBS.format(record.namespace)
    for name in ("page-c", "page-a", "page-b"):
        record(f"creates {name}", "POST", jobs, build_job(name))

    def get_page(what: str, **query: str) -> Object:
        page = record(what, "GET", f"{jobs}?{'&'.join(f'{key}={value}' for key, value in query.items())}")
        metadata: Object = page["metadata"]
        names = [item["metadata"]["name"] for item in page["items"]]
        record.answers.append((page["kind"], page["apiVersion"], names, bool(metadata.get("continue"))))
        return metadata

    first = get_page("the first page", limit="2")
    record("deletes page-c", "DELETE", f"{jobs}/page-c", {})
    record("creates page-d", "POST", jobs, build_job("page-d"))
    second = get_page("the second page", limit="2", **{"continue": first["continue"]})
    record.answers.append(second["resourceVersion"] == first["resourceVersion"])
    get_page("one page for all", limit="9")


def record_all(record: Recorder) -> None:
    record_pods(record, record_jobs(record))
    record_pages(record)
    record_finalizers(record)
    record_leases(record)
    record_others(record)


def ask_for_tokens(ask: Ask, namespace: str) -> tuple[list[Any], Callable[[], bool]]:
    """What the report endpoint relies on: a token's pod and audience, and whether it is still valid."""
    core = f"/api/v1/namespaces/{namespace}"
    container = {"name": "main", "image": "registry.example/train:1"}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "speaker"}, "spec": {"containers": [container]}}
    _, pod = ask("POST", f"{core}/pods", body)
    uid = pod["metadata"]["uid"]

    def request(uid: str, account: str = "default") -> Answer:
        bound = {"kind": "Pod", "apiVersion": "v1", "name": "speaker", "uid": uid}
        spec = {"audiences": ["reports"], "expirationSeconds": 600, "boundObjectRef": bound}
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        return ask("POST", f"{core}/serviceaccounts/{account}/token", body)

    def review(token: str, audience: str = "reports") -> Any:
        spec = {"token": token, "audiences": [audience]}
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec}
        code, answer = ask("POST", "/apis/authentication.k8s.io/v1/tokenreviews", body)
        speaker = read_review({**answer, "status": {**answer["status"], "audiences": [AUDIENCE]}})
        status = answer["status"]
        return code, status.get("authenticated", False), status.get("audiences"), speaker and speaker.pod

    answers = [request(uid, "nobody")[0], request("00000000-0000-0000-0000-000000000000")[0]]
    code, answer = request(uid)
    token = answer["status"]["token"]
    answers += [code, review(token), review(token, "others"), review(token[:-9])]
    ask("DELETE", f"{core}/pods/speaker", {})
    return answers, lambda: bool(review(token)[1])


def test_a_token_is_valid_for_its_audience_while_its_pod_exists(cluster: Cluster) -> None:
    path = f"/api/v1/namespaces/{cluster.namespace}/serviceaccounts/default"
    wait_until("the account", lambda: cluster.server.request("GET", path).status == 200)
    real, is_real_good = ask_for_tokens(ask_real(cluster.server), cluster.namespace)
    model, is_model_good = ask_for_tokens(ask_model(ModelApiServer(lambda: NOW)), cluster.namespace)
    assert real == model
    assert not is_model_good()
    wait_until("the end of a good answer's time in the API server's cache", lambda: not is_real_good())


def test_the_model_answers_as_the_real_one_does(cluster: Cluster) -> None:
    real = Recorder(ask_real(cluster.server), cluster.namespace)
    model = Recorder(ask_model(ModelApiServer(lambda: NOW)), cluster.namespace)
    for record in (real, model):
        record_all(record)
    assert [pair for pair in zip(real.answers, model.answers, strict=True) if pair[0] != pair[1]] == []


def discover(ask: Ask) -> list[Any]:
    """Discovery of the kinds that Railhead uses."""
    _, groups = ask("GET", "/apis")
    preferred = {group["name"]: group["preferredVersion"] for group in groups["groups"]}
    found: list[Any] = [ask("GET", "/api")[1]["versions"], ask("GET", "/apis/example.com/v1")[0]]
    for plural, kind in KINDS.items():
        if kind in OPTIONAL:
            continue
        _, answer = ask("GET", kind.path().rpartition("/")[0])
        [resource] = [each for each in answer["resources"] if each["name"] == plural]
        shown = {key: resource[key] for key in ("name", "singularName", "namespaced", "kind")}
        found.append((preferred.get(kind.group), shown, sorted({*resource["verbs"]}.intersection(VERBS))))
    return found


def test_the_model_serves_the_same_resources(cluster: Cluster) -> None:
    assert discover(ask_model(ModelApiServer(lambda: NOW))) == discover(ask_real(cluster.server))


@pytest.mark.parametrize("plural", ["pods", "trainjobs"])
def test_a_watch_reports_what_the_model_has_in_its_log(cluster: Cluster, plural: str) -> None:
    """From a version on: each change once and in order, with the object at that time."""
    path = {"pods": f"/api/v1/namespaces/{cluster.namespace}/pods", "trainjobs": JOBS.format(cluster.namespace)}[plural]
    since = cluster.server.request("GET", path).body["metadata"]["resourceVersion"]
    api = ModelApiServer(lambda: NOW)
    for ask in (ask_real(cluster.server), ask_model(api)):
        record_all(Recorder(ask, cluster.namespace))
    events = cluster.server.watch(path, since=since, seconds=2)
    assert [describe(e["type"], e["object"]) for e in events] == [
        describe(e.type, e.object) for e in api.log if e.plural == plural
    ]
    versions = [int(e["object"]["metadata"]["resourceVersion"]) for e in events]
    assert versions == sorted(set(versions))


def describe(type_: str, obj: Object) -> Object:
    metadata = obj["metadata"]
    shown = ("name", "deletionGracePeriodSeconds", "finalizers")
    status = obj.get("status") or {}
    return {
        "type": type_,
        **{key: metadata.get(key) for key in shown},
        "is deleting": "deletionTimestamp" in metadata,
        "generation": metadata["generation"] if obj["kind"] == "TrainJob" else None,
        "phase": status.get("phase"),
    }


def test_a_watch_from_a_forgotten_version_has_expired(cluster: Cluster) -> None:
    """The operator then lists again: the action `relist` of the model."""
    [gone] = cluster.server.watch("/apis/railhead.dev/v1alpha1/trainjobs", since="1", seconds=2)
    assert (gone["type"], gone["object"]["code"], gone["object"]["reason"]) == ("ERROR", 410, "Expired")


def test_the_children_of_a_deleted_owner_are_collected(cluster: Cluster) -> None:
    real = Recorder(ask_real(cluster.server), cluster.namespace)
    api = ModelApiServer(lambda: NOW)
    model = Recorder(ask_model(api), cluster.namespace)
    for record in (real, model):
        record_pods(record, record_jobs(record))
        record("deletes the owner", "DELETE", f"{JOBS.format(cluster.namespace)}/twin", {})
    assert api.collect()
    assert not [place for place in api.objects if place[0] == "pods"]
    path = f"/api/v1/namespaces/{cluster.namespace}/pods/kept"
    wait_until("the garbage collector", lambda: cluster.server.request("GET", path).status == 404, seconds=90)


def test_foreground_deletion_removes_the_owner_after_its_children(cluster: Cluster) -> None:
    job, pods = f"{JOBS.format(cluster.namespace)}/twin", f"/api/v1/namespaces/{cluster.namespace}/pods"
    since = cluster.server.request("GET", pods).body["metadata"]["resourceVersion"]
    api = ModelApiServer(lambda: NOW)
    for ask in (ask_real(cluster.server), ask_model(api)):
        record = Recorder(ask, cluster.namespace)
        record_pods(record, record_jobs(record))
        record("deletes the owner", "DELETE", job, {"propagationPolicy": "Foreground"})
    while api.collect():
        pass
    wait_until("the garbage collector", lambda: cluster.server.request("GET", job).status == 404, seconds=90)
    gone = {
        plural: {e["object"]["metadata"]["name"]: int(e["object"]["metadata"]["resourceVersion"]) for e in events}
        for plural, events in (
            ("pods", cluster.server.watch(pods, since=since, seconds=2)),
            ("trainjobs", cluster.server.watch(JOBS.format(cluster.namespace), since=since, seconds=2)),
        )
    }
    assert gone["pods"]["kept"] < gone["trainjobs"]["twin"]
    last = [e.object["metadata"]["name"] for e in api.log if e.type == "DELETED"][-2:]
    assert last == ["kept", "twin"] and not api.objects
