"""The Job that reads a claim: what its pod has, and above all what it does not have; how its start fails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from railhead.api import names
from railhead.client.exit_codes import ClientError, ExitCode
from railhead.client.run import reader_job
from railhead.client.run.reader_job import build_policy, build_reader, pin, run_reader
from railhead.json_object import Object
from railhead.kube.client import Listed
from railhead.kube.errors import Conflict, Denied, KubeError
from railhead.kube.kinds import EVENT, NETWORK_POLICY, POD
from tests.policies import Network, Pod
from tests.unit.client.jobs import make_job, make_pod

TEMPLATE = {
    "metadata": {"labels": {"team": "a"}, "annotations": {"x": "y"}},
    "spec": {
        "serviceAccountName": "trainer",
        "automountServiceAccountToken": True,
        "nodeSelector": {"pool": "cpu"},
        "securityContext": {"runAsUser": 4000, "fsGroup": 5000, "sysctls": [{"name": "a", "value": "b"}]},
        "volumes": [{"name": "secret", "secret": {"secretName": "s"}}],
        "initContainers": [{"name": "init", "image": "x"}],
        "containers": [
            {
                "name": "ray",
                "securityContext": {"privileged": True, "runAsGroup": 6000},
                "volumeMounts": [{"name": "secret", "mountPath": "/runs/secret"}],
            }
        ],
    },
}


def make_stored_job(**spec: Any) -> Object:
    volume = {"persistentVolumeClaim": {"claimName": "runs"}}
    return make_job(
        spec={
            "trainer": {"trainFunc": "train:main"},
            "run": {"storagePath": "/runs", "storageVolume": volume},
            "env": [{"name": "PASSWORD", "value": "x"}],
            "envFrom": [{"secretRef": {"name": "s"}}],
            "imagePullSecrets": [{"name": "pull"}],
            "podTemplate": TEMPLATE,
            **spec,
        }
    )


def test_the_pod_is_the_heads_user_and_has_nothing_else_of_the_job() -> None:
    reader = build_reader(make_stored_job(), folder="/runs/digits-1")
    spec = reader["spec"]["template"]["spec"]
    [container] = spec.pop("containers")
    assert spec.pop("securityContext") == {
        "runAsUser": 4000,
        "runAsGroup": 6000,
        "runAsNonRoot": True,
        "fsGroup": 5000,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert spec == {
        "imagePullSecrets": [{"name": "pull"}],
        "nodeSelector": {"pool": "cpu"},
        "tolerations": spec["tolerations"],
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 1,
        "volumes": [{"name": "railhead-storage", "persistentVolumeClaim": {"claimName": "runs"}}],
    }
    assert container["image"] == "registry.example/train:1"
    assert container["volumeMounts"] == [{"name": "railhead-storage", "mountPath": "/runs", "readOnly": True}]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
    assert not {"env", "envFrom", "ports"} & container.keys()
    assert set(container["resources"]["limits"]) == {"cpu", "memory"}  # a quota may ask for both


def test_the_job_ends_by_itself_and_with_the_train_job() -> None:
    reader = build_reader(make_stored_job(), folder="/runs/digits-1", image="python:3.12")
    metadata, spec = reader["metadata"], reader["spec"]
    assert (spec["activeDeadlineSeconds"], spec["ttlSecondsAfterFinished"], spec["backoffLimit"]) == (600, 60, 0)
    assert [owner["uid"] for owner in metadata["ownerReferences"]] == ["uid-digits"]
    assert spec["template"]["spec"]["containers"][0]["image"] == "python:3.12"
    labels = {**metadata["labels"], **spec["template"]["metadata"]["labels"]}
    own = [key for key in labels if key.startswith("railhead.dev/")]
    assert own == [names.LABEL_READER], "the operator takes none of these for a pod of the job"
    assert len(metadata["generateName"].replace("digits", "d" * 38)) + 5 <= 63


@pytest.mark.parametrize("folder", ["/other/run", "/runs/../etc", "/runs/secret/run"])
def test_a_folder_on_no_claim_is_refused(folder: str) -> None:
    with pytest.raises(ClientError, match="is on no claim that another pod could mount"):
        build_reader(make_stored_job(), folder=folder)


def test_a_pinned_pod_runs_on_the_node_only() -> None:
    reader = build_reader(make_stored_job(), folder="/runs/digits-1")
    pinned = pin(reader, "n1")["spec"]["template"]["spec"]
    affinity = pinned.pop("affinity")["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    [term] = affinity["nodeSelectorTerms"]
    assert term == {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    assert pinned == reader["spec"]["template"]["spec"]


RUNNING: dict[str, Any] = {"phase": "Running", "containerStatuses": [{"name": "reader", "state": {"running": {}}}]}
WAITING: dict[str, Any] = {
    "containerStatuses": [{"name": "reader", "state": {"waiting": {"reason": "ImagePullBackOff"}}}]
}
ENDED: dict[str, Any] = {"phase": "Failed", "reason": "Evicted"}


@dataclass
class FixedCluster:
    """A cluster that shows these pods and events of the Job."""

    shown: list[tuple[str, Object]] = field(default_factory=list)
    modes: tuple[str, ...] = ("ReadWriteMany",)
    live: list[Object] = field(default_factory=list)
    error: Denied | None = None
    policy_error: KubeError | None = None
    policies: list[Object] = field(default_factory=list)
    requests: list[tuple[str, Any]] = field(default_factory=list)
    namespace: str = "team-a"

    @property
    def client(self) -> SimpleNamespace:
        return SimpleNamespace(create=self._create, get=self._get, delete=self._delete, list_each=self._list_each)

    async def _create(self, kind: object, body: Object, **_: object) -> Object:
        if kind == NETWORK_POLICY:
            self.policies.append(body)
            if self.policy_error:
                raise self.policy_error
            return body
        self.requests.append(("create", body))
        if self.error:
            raise self.error
        return {**body, "metadata": {**body["metadata"], "name": "reader-x", "uid": "u"}}

    async def _get(self, kind: object, name: str, **_: object) -> Object:
        assert name == "runs"
        return {"spec": {"accessModes": list(self.modes)}}

    async def _delete(self, kind: object, name: str, **_: object) -> None:
        self.requests.append(("delete", name))

    async def _list_each(self, scope: object, read: Callable[[Object], str]) -> Listed[str]:
        return Listed("1", [read(pod) for pod in self.live])

    async def watch(self, scope: Any, on_change: Callable[[Any, Any], None], read: Callable[[Object], Any]) -> None:
        for kind, obj in self.shown:
            if {"pod": POD, "event": EVENT}[kind] == scope.kind:
                on_change(None, read(obj))
        await asyncio.Event().wait()


async def start(cluster: FixedCluster, said: list[str]) -> str:
    """Returns the name of the pod."""
    fixed: Any = cluster
    async with run_reader(fixed, build_reader(make_stored_job(), folder="/runs/d"), said.append) as pod:
        assert [verb for verb, _ in cluster.requests] == ["create"]
        return pod


async def test_the_job_is_deleted_after_its_pod_was_used() -> None:
    cluster, said = FixedCluster([("pod", make_pod("p", **WAITING)), ("pod", make_pod("p", **RUNNING))]), list[str]()
    assert await start(cluster, said) == "p"
    assert [verb for verb, _ in cluster.requests] == ["create", "delete"]
    assert said[1] == "the pod of Job reader-x waits: ImagePullBackOff"


@pytest.mark.parametrize(
    ("shown", "code", "message"),
    [
        (("event", {"reason": "FailedCreate", "message": "exceeded quota: q"}), ExitCode.REFUSED, "refused: exceeded"),
        (("pod", make_pod("p", **ENDED)), ExitCode.FAILED, "has ended: Evicted"),
        (("pod", make_pod("p", **WAITING)), ExitCode.TIMED_OUT, "does not start within 0.1 s: ImagePullBackOff"),
        (("event", {"reason": "SuccessfulCreate"}), ExitCode.TIMED_OUT, "its pod does not exist yet"),
    ],
)
async def test_a_pod_that_does_not_start_is_explained_and_its_job_deleted(
    shown: tuple[str, Object], code: ExitCode, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader_job, "START_SECONDS", 0.1)
    cluster = FixedCluster([shown])
    with pytest.raises(ClientError, match=message) as raised:
        await start(cluster, [])
    assert raised.value.code == code
    assert cluster.requests[-1] == ("delete", "reader-x")


def test_the_policy_leaves_the_pod_no_connection() -> None:
    reader = build_reader(make_stored_job(), folder="/runs/digits-1")
    policy = build_policy(reader)
    assert policy["metadata"]["ownerReferences"] == reader["metadata"]["ownerReferences"]
    network = Network([{**policy, "metadata": {**policy["metadata"], "namespace": "team-a"}}])
    pod = Pod("team-a", reader["spec"]["template"]["metadata"]["labels"])
    others = (Pod("team-a"), Pod("kube-system", {"k8s-app": "kube-dns"}), Pod("", ip="192.0.2.7", is_external=True))
    for other in others:
        assert not network.allows(pod, other, 53)
        assert not network.allows(other, pod, 443)
    assert network.allows(others[0], others[1], 53), "it selects no other pod"


@pytest.mark.parametrize(
    ("error", "notice"),
    [
        (None, []),
        (Conflict(409, "AlreadyExists", "exists"), []),
        (Denied(403, "Forbidden", "no right"), ["the pod that reads the claim has no NetworkPolicy: no right"]),
    ],
)
async def test_the_policy_comes_before_the_job(error: KubeError | None, notice: list[str]) -> None:
    cluster, said = FixedCluster([("pod", make_pod("p", **RUNNING))], policy_error=error), list[str]()
    assert await start(cluster, said) == "p"
    [policy] = cluster.policies
    assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert said[: len(notice)] == notice
    assert said[-1].startswith("no pod of the job runs; the Job")


async def test_a_refused_job_is_explained() -> None:
    cluster = FixedCluster(error=Denied(403, "Forbidden", "jobs.batch is forbidden"))
    with pytest.raises(ClientError, match=r"cannot create a Job that reads the run's claim: jobs\.batch is forbidden"):
        await start(cluster, [])


@pytest.mark.parametrize(
    ("mode", "phase", "node"),
    [("ReadWriteOnce", "Running", "gpu-1"), ("ReadWriteOnce", "Succeeded", ""), ("ReadWriteMany", "Running", "")],
)
async def test_the_pod_goes_to_the_node_that_has_a_read_write_once_claim(mode: str, phase: str, node: str) -> None:
    other = make_pod("other", phase=phase)
    other["spec"]["volumes"] = [{"name": "x", "persistentVolumeClaim": {"claimName": "runs"}}]
    shown = [("pod", make_pod("p", **RUNNING))]
    cluster = FixedCluster(shown, modes=(mode,), live=[make_pod("without", phase="Running"), other])
    await start(cluster, [])
    affinity = cluster.requests[0][1]["spec"]["template"]["spec"].get("affinity")
    assert (f"'{node}'" in str(affinity)) if node else affinity is None


def test_it_has_the_labels_that_the_job_wants_on_all_its_objects() -> None:
    job = make_stored_job()
    job["spec"]["childMetadata"] = {"labels": {"team": "vision"}, "annotations": {"example.com/owner": "me"}}
    reader = build_reader(job, folder="/runs/digits-1", image="python:3.12")
    for metadata in (reader["metadata"], reader["spec"]["template"]["metadata"]):
        own = {"app.kubernetes.io/name": "railhead-reader", "railhead.dev/reader-of": job["metadata"]["uid"]}
        assert metadata["labels"] == {"team": "vision", **own}
        assert metadata["annotations"] == {"example.com/owner": "me"}
