"""parse_spec: a stored object becomes a value, or an error that names its field."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from railhead.api.parsed_spec import InvalidSpec, parse_spec
from railhead.api.spec import TrainJobSpec
from railhead.api.status import JobStatus
from tests.unit.api.walk import all_models

SMALLEST: dict[str, Any] = {
    "image": "digits:1",
    "trainer": {"trainFunc": "digits:train_func"},
    "run": {"storagePath": "/runs"},
}
FULL: dict[str, Any] = {
    **SMALLEST,
    "imagePullPolicy": "IfNotPresent",
    "imagePullSecrets": [{"name": "registry"}],
    "trainer": {
        "framework": "Torch",
        "trainFunc": "digits:train_func",
        "validationFunction": "digits:validate",
        "trainLoopConfig": {"lr": 0.001, "layers": [1, 2]},
        "backend": {"name": "gloo", "timeoutSeconds": 60, "initMethod": "tcp"},
    },
    "source": {"inline": {"digits.py": "..."}},
    "scaling": {
        "numWorkers": 4,
        "useGPU": True,
        "resourcesPerWorker": {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1"},
        "workersPerPod": 2,
        "placementStrategy": "SPREAD",
        "acceleratorType": "H100",
        "rayLabelSelector": {"example.com/pool": "in(a, b)", "spot": "!true"},
    },
    "run": {
        "name": "digits",
        "storagePath": "/runs",
        "storageVolume": {"persistentVolumeClaim": {"claimName": "runs"}},
        "checkpoint": {"numToKeep": 3, "scoreAttribute": "loss", "scoreOrder": "min"},
        "failure": {"maxFailures": 1},
        "collectiveTimeoutSeconds": 60,
        "logLevel": "WARNING",
        "callbacks": ["mine:Notify"],
    },
    "datasets": {
        "train": {"format": "parquet", "uri": "s3://bucket/digits", "split": False},
        "made": {"function": "data:build", "split": True},
    },
    "env": [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}],
    "runtimeEnv": {
        "env_vars": {"A": "1"},
        "pip": ["a==1"],
        "working_dir": ".",
        "py_modules": ["pkg"],
        "excludes": ["data"],
        "config": {"setup_timeout_seconds": 60},
    },
    "envFrom": [{"prefix": "S3_", "secretRef": {"name": "s3"}}],
    "podUser": "Cluster",
    "childMetadata": {"labels": {"team": "vision"}, "annotations": {"example.com/owner": "vision@example.com"}},
    "podTemplate": {"metadata": {"labels": {"team": "vision"}}, "spec": {"containers": [{"name": "ray"}]}},
    "head": {"resources": {"cpu": "1"}},
    "worker": {
        "extraResources": {"cpu": "2"},
        "overhead": {"memory": "1Gi"},
        "sharedMemory": "1Gi",
        "objectStore": "1Gi",
    },
    "resumeFrom": {"trainJob": "other", "best": True},
    "scheduling": {
        "nodeAvoidance": "None",
        "gangScheduler": "PodGroup",
        "priorityClassName": "high",
        "queueName": "team-a",
        "topology": {"key": "rack", "policy": "Preferred"},
    },
    "metrics": {"port": 9400},
    "ray": {"dashboard": True},
    "logs": {"forward": "Rank0", "archive": "All", "archivePerRank": "8Mi", "archivePerRun": "2Gi"},
    "backoffLimit": 5,
    "backoffResetSeconds": 3600,
    "noProgressLimit": 5,
    "failurePolicy": {
        "rules": [
            {"action": "Fail", "onExitCodes": {"operator": "In", "values": [42]}},
            {"action": "RestartAndIgnore", "onReason": ["CheckpointNotWritten"]},
            {"action": "Restart", "onClass": ["Configuration"]},
        ]
    },
    "disruptionLimit": 100,
    "suspend": True,
    "suspendGraceSeconds": 30,
    "activeDeadlineSeconds": 86400,
    "startDeadlineSeconds": 600,
    "restartDeadlineSeconds": 600,
    "partialStartDeadlineSeconds": 0,
    "progressDeadlineSeconds": 1800,
    "hangPolicy": "Restart",
    "metricPolicy": {
        "rules": [
            {"name": "nan", "type": "IsNaN", "metric": "loss", "action": "Restart", "consecutive": 3},
            {
                "name": "plateau",
                "type": "NotImproved",
                "metric": "loss",
                "mode": "min",
                "threshold": "0.01",
                "windowSeconds": 3600,
                "action": "Warn",
            },
        ]
    },
    "keepPodsSeconds": 0,
    "ttlSecondsAfterFinished": 0,
    "managedBy": "railhead.dev/operator",
}


GIT = {"repository": "https://a/b", "revision": "0a" * 20}
RESOURCES = "spec.scaling.resourcesPerWorker"


def with_resources(resources: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "ray", "resources": resources}]}}


def test_a_full_spec_survives_a_round_trip() -> None:
    spec = parse_spec(FULL)
    written = spec.model_dump(by_alias=True, exclude_none=True, mode="json")
    assert written == FULL
    assert parse_spec(written) == spec


def test_the_full_spec_has_every_field() -> None:
    known = {info.alias or name for name, info in TrainJobSpec.model_fields.items()}
    assert set(FULL) == known


def test_defaults_equal_those_of_the_api_server() -> None:
    spec = parse_spec(SMALLEST)
    assert (spec.scaling.most_workers, spec.scaling.workers_per_pod, spec.scaling.use_gpu) == (1, 1, False)
    assert (spec.backoff_limit, spec.managed_by) == (3, "railhead.dev/operator")
    assert (spec.worker.shared_memory, spec.worker.object_store, spec.datasets) == (None, None, None)


def test_numbers_are_valid_quantities() -> None:
    spec = parse_spec({**SMALLEST, "scaling": {"resourcesPerWorker": {"cpu": 2, "nvidia.com/gpu": 1}}})
    assert spec.scaling.resources_per_worker == {"cpu": "2", "nvidia.com/gpu": "1"}


def test_a_spec_cannot_be_changed_by_accident() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        parse_spec(SMALLEST).image = "other"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"image": ""}, "spec.image"),
        ({"trainer": {"trainFunc": "digits"}}, "spec.trainer.trainFunc"),
        ({"trainer": {}}, "spec.trainer"),
        ({"trainer": {"trainFunc": "a:b", "build": "a:b"}}, "spec.trainer"),
        ({"scaling": {"numWorkers": 0}}, "spec.scaling.numWorkers"),
        ({"scaling": {"resourcesPerWorker": {"cpu": "two"}}}, "spec.scaling.resourcesPerWorker.cpu"),
        ({"env": [{"name": "A"}, {"name": "1"}]}, "spec.env[1].name"),
        ({"source": {"git": {"repository": "ext::sh", "revision": "0a" * 20}}}, "spec.source.git.repository"),
        ({"source": {"git": {"repository": "https://a/b", "revision": "main"}}}, "spec.source.git.revision"),
        ({"image": "a/b:1\n"}, "spec.image"),
        ({"trainer": {"trainFunc": "a:b\n"}}, "spec.trainer.trainFunc"),
        ({"env": [{"name": "A\n"}]}, "spec.env[0].name"),
        ({"source": {"git": {**GIT, "repository": "https://a/b\n"}}}, "spec.source.git.repository"),
        ({"source": {"git": {**GIT, "revision": "0a" * 20 + "\n"}}}, "spec.source.git.revision"),
        ({"source": {"git": {**GIT, "path": "src\n"}}}, "spec.source.git.path"),
        ({"source": {"inline": {"a.py\n": ""}}}, "spec.source.inline.a.py\n.[key]"),
        ({"run": {"storagePath": "s3://bucket/a\n"}}, "spec.run.storagePath"),
        ({"run": {"storagePath": "/data", "resumeFrom": "/data/run/checkpoint\n"}}, "spec.run.resumeFrom"),
        ({"scaling": {"resourcesPerWorker": {"cpu": "2\n"}}}, "spec.scaling.resourcesPerWorker.cpu"),
        ({"podTemplate": {"spec": {"initContainers": ["a"]}}}, "spec.podTemplate"),
        ({"runtimeEnv": {"pip": 7}}, "spec.runtimeEnv.pip"),
        ({"wokers": 2}, "spec.wokers"),
        ({"datasets": {"train": {"format": "orc"}}}, "spec.datasets.train.format"),
        ({"podTemplate": {"spec": {"containers": "ray"}}}, "spec.podTemplate"),
        ({"podTemplate": with_resources({"requests": {"cpu": "1"}})}, "spec.podTemplate"),
        ({"worker": {"podTemplate": with_resources({"limits": {"memory": "1Gi"}})}}, "spec.worker.podTemplate"),
        ({"podTemplate": with_resources("all")}, "spec.podTemplate"),
        ({"scaling": {"useGPU": True, "resourcesPerWorker": {"nvidia.com/gpu": "0.5"}}}, RESOURCES),
        ({"scaling": {"rayLabelSelector": {"pool": "in()"}}}, "spec.scaling.rayLabelSelector.pool"),
        ({"podTemplate": {"metadata": {"labels": {"a": 1}}}}, "spec.podTemplate"),
    ],
    ids=str,
)
def test_an_object_of_another_schema_is_rejected_naming_the_field(change: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidSpec) as caught:
        parse_spec({**SMALLEST, **change})
    assert caught.value.field == field
    assert str(caught.value).startswith(f"{field}: ")
    assert "Value error" not in caught.value.message


@pytest.mark.parametrize("raw", [None, [], "spec", 1, {}])
def test_a_value_that_is_no_spec_is_rejected(raw: Any) -> None:
    with pytest.raises(InvalidSpec, match="spec"):
        parse_spec(raw)


def test_a_name_too_long_for_the_names_of_children_is_rejected() -> None:
    with pytest.raises(InvalidSpec, match=r"metadata\.name"):
        parse_spec(SMALLEST, name="a" * 39)


@pytest.mark.parametrize("model", [TrainJobSpec, JobStatus])
def test_every_field_of_every_model_is_described(model: type) -> None:
    undescribed = [
        f"{part.__name__}.{name}"
        for part in all_models(model)
        for name, info in part.model_fields.items()
        if not info.description
    ]
    assert undescribed == []


def nest(levels: int) -> Any:
    inner: Any = []
    for _ in range(levels):
        inner = {"a": inner}
    return inner


@pytest.mark.parametrize(
    ("changes", "is_allowed"),
    [
        ({"trainer": {"trainFunc": "m:f", "trainLoopConfig": {"text": "x" * 100_000}}}, True),
        ({"trainer": {"trainFunc": "m:f", "trainLoopConfig": {"numbers": [1.5] * 10_000}}}, True),
        ({"trainer": {"trainFunc": "m:f", "trainLoopConfig": {"text": "x" * 140_000}}}, False),
        ({"trainer": {"trainFunc": "m:f", "trainLoopConfig": {"text": "ä" * 70_000}}}, False),
        ({"trainer": {"trainFunc": "m:f", "trainLoopConfig": {"x" * 140_000: ""}}}, False),
        ({"trainer": {"trainFunc": "m:f", "trainLoopConfig": {"lists": [[]] * 3_000}}}, False),
        ({"trainer": {"trainFunc": "m:f", "trainLoopConfig": nest(50_000)}}, False),
        ({"trainer": {"trainFunc": "m:f", "trainLoopConfig": {"numbers": [10**4000] * 20_000}}}, False),
        ({"podTemplate": {"metadata": {"annotations": {"a": "x" * 140_000}}}}, False),
        ({"head": {"podTemplate": {"spec": {"containers": [{"name": "a", "args": ["x" * 140_000]}]}}}}, False),
        ({"worker": {"podTemplate": {"spec": {"initContainers": [{"name": "a", "args": ["x" * 140_000]}]}}}}, False),
        ({"env": [{"name": f"A{n}", "value": "x" * 32_768} for n in range(5)]}, False),
        ({"runtimeEnv": {"conda": {"dependencies": ["x" * 140_000]}}}, False),
        ({"runtimeEnv": {"env_vars": {f"A{n}": "x" * 32_768 for n in range(5)}}}, False),
    ],
)
def test_a_spec_that_is_too_large_is_refused_wherever_it_is_large(changes: Any, is_allowed: bool) -> None:
    if is_allowed:
        parse_spec({**SMALLEST, **changes})
        return
    with pytest.raises(InvalidSpec, match=r"^spec: more than 128 KiB in total, .* put large values of trainer"):
        parse_spec({**SMALLEST, **changes})


@pytest.mark.parametrize(
    ("scaling", "hours"),
    [
        ({"numWorkers": 1}, 6),
        ({"numWorkers": 256, "useGPU": True}, 6),
        ({"numWorkers": 1024, "useGPU": True}, 1.5),
        ({"numWorkers": 128, "useGPU": True, "resourcesPerWorker": {"nvidia.com/gpu": 8}}, 1.5),
        ({"minWorkers": 8, "maxWorkers": 512, "useGPU": True}, 3),
        ({"numWorkers": 1024}, 1.5),
        ({"numWorkers": 2048, "useGPU": True, "resourcesPerWorker": {"nvidia.com/gpu": 8}}, 1 / 6),
    ],
)
def test_the_budget_of_a_large_job_refills_earlier_by_default(scaling: dict[str, Any], hours: float) -> None:
    spec = parse_spec({**SMALLEST, "scaling": scaling})
    assert spec.reset_seconds == hours * 3600
    assert parse_spec({**SMALLEST, "scaling": scaling, "backoffResetSeconds": 0}).reset_seconds == 0
