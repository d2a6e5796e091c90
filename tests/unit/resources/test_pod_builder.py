"""Head and worker pods of several specs: identity, security, environment, volumes and grace periods."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest

from railhead.api import names
from railhead.api.parsed_spec import InvalidSpec
from railhead.api.status import JobStatus
from railhead.contract.report import AUDIENCE
from railhead.resources.base import JobRef
from railhead.resources.bundle import build_start
from railhead.resources.mounts import build_job_input
from railhead.resources.pod_builder import PodSettings, WorkerPodBuilder, build_head_pod
from railhead.resources.sizes import compute_sizes
from tests.unit.builders import MOUNTS, SETTINGS, UID, make_spec

Object = dict[str, Any]
JOB = JobRef("team", "digits", UID)
CLAIM = {"persistentVolumeClaim": {"claimName": "shared"}}
SPECS: dict[str, Object] = {
    "smallest": {},
    "gpus": {"scaling": {"numWorkers": 8, "workersPerPod": 4, "useGPU": True}},
    "inline": {"source": {"inline": {"train.py": "x = 1", "more.py": ""}}},
    "config-map": {"source": {"configMap": {"name": "code"}}},
    "folders": {"source": {"configMap": {"name": "code", "items": [{"key": "m.py", "path": "pkg/m.py"}]}}},
    "image": {"source": {"image": {"reference": "code:1", "path": "src", "pullPolicy": "Always"}}},
    "volume": {"run": {"storagePath": "/mnt/runs", "storageVolume": CLAIM}},
    "template": {"podTemplate": {"spec": {"containers": [{"name": "side", "image": "side"}]}}},
}
STATUS = JobStatus.model_validate(
    {
        "runURI": "s3://bucket/runs/digits-1a2b?region=x",
        "checkpoint": {"uri": "s3://bucket/runs/digits-1a2b/c7?region=x", "index": 7, "attempt": 2},
        "bestCheckpoint": {
            "uri": "s3://bucket/runs/digits-1a2b/a/c5?region=x",
            "index": 5,
            "time": "2026-01-01T00:00:00Z",
            "attempt": 1,
        },
    }
)
ROLES = ("head", "worker")
all_pods = pytest.mark.parametrize("spec", SPECS)
both_roles = pytest.mark.parametrize("role", ROLES)


def build(role: str, *, job: JobRef = JOB, attempt: int = 2, status: JobStatus = STATUS, **changes: Any) -> Object:
    return build_for(PodSettings(job, make_spec(**changes), attempt, MOUNTS), role, status=status)


def build_for(attempt: PodSettings, role: str, *, status: JobStatus = STATUS) -> Object:
    if role == "head":
        return build_head_pod(attempt, report_url=SETTINGS.report_url, status=status, worker_pods=2)
    return WorkerPodBuilder(attempt).build(slot=3, round_=1)


def ray(pod: Object) -> Object:
    [container] = [c for c in pod["spec"]["containers"] if c["name"] == "ray"]
    return dict(container)


def env(pod: Object) -> dict[str, Any]:
    items = ray(pod)["env"]
    assert len({item["name"] for item in items}) == len(items), "each name once"
    return {item["name"]: item.get("value", item.get("valueFrom")) for item in items}


def volumes(pod: Object) -> dict[str, Object]:
    return {v["name"]: {key: value for key, value in v.items() if key != "name"} for v in pod["spec"]["volumes"]}


def mounts(pod: Object) -> dict[str, str]:
    return {mount["mountPath"]: mount["name"] for mount in ray(pod)["volumeMounts"]}


@all_pods
@pytest.mark.parametrize(("slot", "round_"), [(3, 1), (0, 0), (4095, 12)])
def test_worker_pods_differ_in_name_slot_and_round_only(spec: str, slot: int, round_: int) -> None:
    pods = WorkerPodBuilder(PodSettings(JOB, make_spec(**SPECS[spec]), 2, MOUNTS))
    pod, other = pods.build(slot=slot, round_=round_), pods.build(slot=5, round_=7)
    labels = {names.LABEL_SLOT: str(slot), names.LABEL_ROUND: str(round_)}
    other["metadata"] |= {"name": pods.name(slot, round_), "labels": {**other["metadata"]["labels"], **labels}}
    other["spec"]["hostname"] = pods.name(slot, round_)
    assert pod == other


@all_pods
@both_roles
def test_pods_of_the_same_job_are_identical(role: str, spec: str) -> None:
    assert json.dumps(build(role, **SPECS[spec])) == json.dumps(build(role, **SPECS[spec]))


@all_pods
def test_names_and_labels_identify_job_attempt_and_slot(spec: str) -> None:
    head, worker = (build(role, **SPECS[spec])["metadata"] for role in ROLES)
    job = {names.LABEL_JOB_NAME: "digits", names.LABEL_JOB_UID: UID, names.LABEL_ATTEMPT: "2"}
    assert (head["name"], worker["name"]) == ("digits-0f1e2d-2-head", "digits-0f1e2d-2-w3-1")
    assert head["namespace"] == worker["namespace"] == "team"
    assert head["labels"].items() >= {**job, names.LABEL_ROLE: "head"}.items()
    assert names.LABEL_SLOT not in head["labels"]
    slot = {names.LABEL_ROLE: "worker", names.LABEL_SLOT: "3", names.LABEL_ROUND: "1"}
    assert worker["labels"].items() >= {**job, **slot}.items()


@all_pods
@both_roles
def test_the_job_owns_its_pods_and_controls_them(role: str, spec: str) -> None:
    [owner] = build(role, **SPECS[spec])["metadata"]["ownerReferences"]
    assert owner == {
        "apiVersion": "railhead.dev/v1alpha1",
        "kind": "TrainJob",
        "name": "digits",
        "uid": UID,
        "controller": True,
        "blockOwnerDeletion": True,
    }


@all_pods
@both_roles
def test_pods_have_a_restricted_security_context(role: str, spec: str) -> None:
    pod = build(role, **SPECS[spec])
    security = pod["spec"]["securityContext"]
    assert security["runAsNonRoot"] is True and security["runAsUser"] != 0
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}
    assert ray(pod)["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    assert pod["spec"]["automountServiceAccountToken"] is False


@all_pods
def test_only_the_head_has_a_token_and_only_for_the_report_endpoint(spec: str) -> None:
    head, worker = (build(role, **SPECS[spec]) for role in ROLES)
    [source] = volumes(head)["railhead-token"]["projected"]["sources"]
    assert source == {"serviceAccountToken": {"path": "token", "audience": AUDIENCE, "expirationSeconds": 3600}}
    assert mounts(head)["/var/run/railhead"] == "railhead-token"
    assert env(head)["RAILHEAD_REPORT_TOKEN"] == "/var/run/railhead/token"
    assert json.dumps(head).count("serviceAccountToken") == 1
    assert "serviceAccountToken" not in json.dumps(worker)
    assert not [name for name in env(worker) if name.startswith("RAILHEAD_REPORT")]


@all_pods
@both_roles
def test_resources_are_the_sizes_and_the_cpu_has_no_limit(role: str, spec: str) -> None:
    size = getattr(compute_sizes(make_spec(**SPECS[spec])), role)
    resources = ray(build(role, **SPECS[spec]))["resources"]
    assert resources["requests"] == size.requests
    assert resources["limits"] == size.limits
    assert set(resources["limits"]) == set(resources["requests"]) - {"cpu"}


@all_pods
@both_roles
def test_the_entry_point_is_the_bundle_in_the_users_image(role: str, spec: str) -> None:
    pod = build(role, **SPECS[spec])
    container = ray(pod)
    assert container["command"] == build_start(role, digest="test", folder="/tmp/railhead")
    assert (container["args"], container["image"]) == ([], "example/train:1")
    assert volumes(pod)[mounts(pod)["/opt/railhead"]] == {"configMap": {"name": SETTINGS.bundle_name}}
    assert pod["spec"]["restartPolicy"] == "Never"


@all_pods
@both_roles
def test_environment_points_to_the_mounts_and_the_head(role: str, spec: str) -> None:
    pod = build(role, **SPECS[spec])
    variables, mounted = env(pod), mounts(pod)
    assert variables["RAILHEAD_ATTEMPT"] == "2"
    assert variables["RAILHEAD_HEAD_HOST"] == "digits-0f1e2d-2-head.railhead-heads"
    assert variables["RAILHEAD_POD_IP"] == {"fieldRef": {"fieldPath": "status.podIP"}}
    uid = {"fieldRef": {"fieldPath": "metadata.uid"}}
    assert variables.get("RAILHEAD_POD_UID") == (uid if role == "head" else None), "the fence tells heads apart by it"
    assert mounted[variables["RAILHEAD_INPUT"]] == "railhead-input"
    assert mounted[variables["RAILHEAD_TEMP"]] == mounted[variables["HOME"]] == "railhead-temp"
    assert variables["RAY_AUTH_TOKEN"] == "", "an empty one outranks that of the image, and Ray ignores it"
    assert mounted[variables["RAY_AUTH_TOKEN_PATH"].removesuffix("/token")] == "railhead-auth"
    assert variables["RAY_AUTH_MODE"] == "token"
    sees_gpus = role == "worker" and spec == "gpus"
    hidden = (None, None) if sees_gpus else ("void", "")
    assert (variables.get("NVIDIA_VISIBLE_DEVICES"), variables.get("CUDA_VISIBLE_DEVICES")) == hidden
    assert variables.get("RAILHEAD_CHECKPOINT_INDEX") == ("7" if role == "head" else None)
    assert variables.get("RAILHEAD_REPORT_URL") == (SETTINGS.report_url if role == "head" else None)
    place = {"run": "digits-1a2b", "folder": "runs"}
    best = {"name": "a/c5", **place, "index": 5, "time": "2026-01-01T00:00:00Z", "attempt": 1}
    known = [best, {"name": "c7", **place, "index": 7, "time": "", "attempt": 2}]
    assert json.loads(variables.get("RAILHEAD_KNOWN_CHECKPOINTS", "null")) == (known if role == "head" else None)


@pytest.mark.parametrize(("run_uri", "runs"), [("s3://b/runs/r-fit-2?x=y", ["r", "r-fit-2"]), ("", ["r", "r-fit-2"])])
def test_a_checkpoint_of_an_earlier_fit_keeps_its_run(run_uri: str, runs: list[str]) -> None:
    best, newest = {"uri": "s3://b/runs/r/c1?x=y", "index": 1}, {"uri": "s3://b/runs/r-fit-2/c3?x=y", "index": 3}
    status = JobStatus.model_validate({"runURI": run_uri, "checkpoint": newest, "bestCheckpoint": best})
    known = json.loads(env(build("head", status=status))["RAILHEAD_KNOWN_CHECKPOINTS"])
    assert [(each["run"], each["name"]) for each in known] == list(zip(runs, ["c1", "c3"], strict=True))


HIDDEN = {"NVIDIA_VISIBLE_DEVICES": "void", "CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""}


@pytest.mark.parametrize("device", ["rdma/hca", "smarter-devices/fuse", "example.com/nic"])
def test_a_worker_with_another_device_and_no_gpu_sees_no_gpu(device: str) -> None:
    variables = env(build("worker", scaling={"resourcesPerWorker": {device: "1"}}))
    assert variables.items() >= HIDDEN.items()


@pytest.mark.parametrize("gpu", [None, "nvidia.com/mig-1g.5gb", "nvidia.com/gpu.shared", "amd.com/gpu"])
def test_a_worker_with_gpus_requests_them_by_name_and_sees_them(gpu: str | None) -> None:
    named = {"gpuResourceName": gpu} if gpu else {}
    pod = build("worker", scaling={"useGPU": True, **named, "resourcesPerWorker": {"rdma/hca": "1"}})
    assert not HIDDEN.keys() & env(pod).keys()
    requested = ray(pod)["resources"]["limits"]
    assert {name for name in requested if "/" in name} == {gpu or "nvidia.com/gpu", "rdma/hca"}


def test_only_a_head_receives_the_progress_deadline() -> None:
    assert env(build("head", progressDeadlineSeconds=600))["RAILHEAD_PROGRESS_DEADLINE"] == "600"
    assert "RAILHEAD_PROGRESS_DEADLINE" not in env(build("worker", progressDeadlineSeconds=600))
    assert "RAILHEAD_PROGRESS_DEADLINE" not in env(build("head"))


def test_head_and_workers_have_the_priority_of_the_job() -> None:
    for role in ("head", "worker"):
        assert build(role, scheduling={"priorityClassName": "high"})["spec"]["priorityClassName"] == "high"
        assert "priorityClassName" not in build(role)["spec"]


def test_the_head_is_found_by_its_host_name() -> None:
    head = build("head")
    host = f"{head['spec']['hostname']}.{head['spec']['subdomain']}"
    assert env(build("worker"))["RAILHEAD_HEAD_HOST"] == host
    assert env(head)["RAILHEAD_HEAD_PORT"] == env(build("worker"))["RAILHEAD_HEAD_PORT"]
    assert env(build("head", attempt=3))["RAILHEAD_HEAD_PORT"] != env(head)["RAILHEAD_HEAD_PORT"]


@all_pods
@both_roles
def test_every_mount_has_its_volume_and_every_volume_its_mount(role: str, spec: str) -> None:
    pod = build(role, **SPECS[spec])
    assert set(mounts(pod).values()) == set(volumes(pod))
    assert len(mounts(pod)) == len(volumes(pod)) == len(pod["spec"]["volumes"])


@both_roles
def test_volumes_of_input_auth_shm_and_storage(role: str) -> None:
    pod = build(role, **SPECS["volume"])
    found = volumes(pod)
    assert found["railhead-input"]["configMap"]["name"] == MOUNTS.input
    assert {item["key"] for item in found["railhead-input"]["configMap"]["items"]} == {"job.json", "report-ca.crt"}
    assert found["railhead-auth"] == {"secret": {"secretName": MOUNTS.secret, "defaultMode": 0o440}}
    shared = getattr(compute_sizes(make_spec()), role).shared_memory
    assert found[mounts(pod)["/dev/shm"]] == {"emptyDir": {"medium": "Memory", "sizeLimit": shared}}
    assert found[mounts(pod)["/mnt/runs"]] == CLAIM
    assert "railhead-storage" not in volumes(build(role))


@both_roles
def test_mounts_inline_code_a_config_map_or_an_image(role: str) -> None:
    inline, config_map = build(role, **SPECS["inline"]), build(role, **SPECS["config-map"])
    items = [{"key": "source.more.py", "path": "more.py"}, {"key": "source.train.py", "path": "train.py"}]
    assert volumes(inline)["railhead-source"]["configMap"]["items"] == items
    copy = MOUNTS.source
    assert volumes(config_map)["railhead-source"] == {"configMap": {"name": copy}}
    image = build(role, **SPECS["image"])
    assert volumes(image)["railhead-source"] == {"image": {"reference": "code:1", "pullPolicy": "Always"}}
    assert env(image)["RAILHEAD_SOURCE"] == "/etc/railhead/source/src"
    assert mounts(image)["/etc/railhead/source"] == "railhead-source"
    folders = build(role, **SPECS["folders"])
    mounted = {"name": copy, "items": [{"key": "m.py", "path": "pkg/m.py"}]}
    assert volumes(folders)["railhead-source"] == {"configMap": mounted}
    assert mounts(inline)[env(inline)["RAILHEAD_SOURCE"]] == "railhead-source"
    assert "RAILHEAD_SOURCE" not in env(build(role))


def test_a_worker_pod_has_time_to_drain_even_if_a_template_sets_less() -> None:
    def grace(role: str, seconds: int | None, template: int | None) -> int:
        worker = {"drainSeconds": seconds} if seconds else {}
        spec = {"spec": {"terminationGracePeriodSeconds": template}} if template is not None else {}
        built = build(role, worker=worker, podTemplate=spec)
        return int(built["spec"]["terminationGracePeriodSeconds"])

    assert [grace("worker", 60, template) for template in (None, 5, 300)] == [70, 70, 300]
    assert grace("head", 60, None) == grace("head", None, None), "the head does not drain"
    assert grace("worker", None, None) == 30
    job = build_job_input(JOB, make_spec(worker={"drainSeconds": 60}))
    assert (job.drain_seconds, job.is_drain_required) == (60, True)


@pytest.mark.parametrize(("use_gpu", "head", "worker", "drain"), [(False, 60, 30, 0), (True, 600, 40, 30)])
def test_pods_with_gpus_have_more_time_to_save_a_checkpoint(use_gpu: bool, head: int, worker: int, drain: int) -> None:
    scaling = {"numWorkers": 2, "useGPU": use_gpu}
    built = {role: build(role, scaling=scaling) for role in ("head", "worker")}
    times = [built[role]["spec"]["terminationGracePeriodSeconds"] for role in ("head", "worker")]
    assert times == [head + 15, worker]
    job = build_job_input(JOB, make_spec(scaling=scaling))
    assert (job.end_seconds, job.drain_seconds, job.is_drain_required) == (head, drain, False)
    assert build_job_input(JOB, make_spec(scaling=scaling, suspendGraceSeconds=0)).end_seconds == 0


WRONG: tuple[Any, ...] = (None, 7, "x", [], [7], [None], {}, {"name": 7})
POD_FIELDS = (
    *("containers", "initContainers", "volumes", "tolerations", "affinity", "topologySpreadConstraints"),
    *("securityContext", "terminationGracePeriodSeconds", "imagePullSecrets", "hostAliases", "nodeSelector"),
    *("priorityClassName", "dnsConfig"),
)
CONTAINER_FIELDS = ("env", "envFrom", "volumeMounts", "resources", "securityContext", "ports", "lifecycle")


@both_roles
@pytest.mark.parametrize("wrong", WRONG, ids=repr)
@pytest.mark.parametrize("field", [*POD_FIELDS, *(f"containers.{name}" for name in CONTAINER_FIELDS), "nodeAffinity"])
def test_a_template_with_a_value_of_a_wrong_type_is_refused_or_left_to_the_api_server(
    role: str, wrong: Any, field: str
) -> None:
    """The builders raise nothing: the API server's message names the field."""
    where, _, name = field.rpartition(".")
    template: Object = {field: wrong}
    if where:
        template = {"containers": [{"name": "ray", name: wrong}]}
    elif field == "nodeAffinity":
        template = {"affinity": {field: wrong}}
    with contextlib.suppress(InvalidSpec):
        spec = make_spec(podTemplate={"spec": template}, scaling={"numWorkers": 2, "placementStrategy": "SPREAD"})
        build_for(PodSettings(JOB, spec, 1, MOUNTS, avoided_nodes=["node-1"]), role)
