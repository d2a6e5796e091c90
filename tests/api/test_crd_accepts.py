"""Valid jobs are accepted as written, and get their defaults."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from railhead.api.parsed_spec import parse_spec
from railhead.api.status import parse_status
from railhead.api.trainer import Framework
from tests.api.server import ApiServer
from tests.api.trainjobs import PATH, make_job


def limited(limits: dict[str, Any]) -> dict[str, Any]:
    """A template with limits for the main container."""
    return {"spec": {"containers": [{"name": "ray", "resources": {"limits": limits}}]}}


# What Go programs write into every metadata, and what is absent by another name.
NULLS = {"creationTimestamp": None, "name": None, "annotations": None}
MADE_BY_A_PROGRAM = {"metadata": {**NULLS, "labels": None}, "spec": {"containers": [{"name": "ray", "resources": {}}]}}
EMPTY_BY_A_PROGRAM = {
    "metadata": NULLS,
    "spec": {
        "containers": [{"name": "ray", "resources": None, "volumeMounts": None, "env": None}],
        "initContainers": None,
        "volumes": None,
        "tolerations": None,
        "ephemeralContainers": None,
    },
}
OWN_SHARED_MEMORY = {
    "spec": {
        "volumes": [{"name": "mps", "hostPath": {"path": "/run/nvidia/mps/shm"}}],
        "containers": [{"name": "ray", "volumeMounts": [{"name": "mps", "mountPath": "/dev/shm"}]}],
    }
}
CLAIM = {"persistentVolumeClaim": {"claimName": "runs"}}
VALID: dict[str, dict[str, Any]] = {
    "smallest": {},
    "longest name": {"metadata.name": "a" * 38},
    "as much inline code as allowed": {"spec.source": {"inline": {"a.py": "x" * 16_384, "b.py": "é" * 8_192}}},
    "inline code": {"spec.source": {"inline": {"digits.py": "def train_func(config): ..."}}},
    "a metric rule of each type": {
        "spec.metricPolicy": {
            "rules": [
                {"name": "nan", "type": "IsNaN", "metric": "loss", "consecutive": 3, "action": "Restart"},
                {"name": "above", "type": "Above", "metric": "a/b", "threshold": "-1.5e3", "action": "Fail"},
                {"name": "below", "type": "Below", "metric": "x y", "threshold": "0", "windowSeconds": 60}
                | {"action": "Warn"},
                {"name": "plateau", "type": "NotImproved", "metric": "loss", "mode": "min", "consecutive": 5}
                | {"threshold": "0.01", "action": "Warn"},
                {"name": "1-old", "type": "NotImproved", "metric": "acc", "mode": "max", "windowSeconds": 60}
                | {"action": "Warn"},
                {"name": "slow", "type": "RateBelow", "threshold": "60%", "windowSeconds": 600, "action": "Warn"},
                {"name": "no-checkpoint", "type": "NoCheckpoint", "windowSeconds": 604800, "action": "Restart"},
            ]
        }
    },
    "from another job": {"spec.resumeFrom": {"trainJob": "digits-1"}},
    "from the best of another job": {"spec.resumeFrom": {"trainJob": "digits-1", "best": True}},
    "from a path with a space": {"spec.resumeFrom": {"checkpoint": "/runs/digits/epoch=0 val loss=0.5%"}},
    "from a checkpoint": {"spec.resumeFrom": {"checkpoint": "s3://bucket/runs/digits/c7?region=eu"}},
    "code in a ConfigMap": {"spec.source": {"configMap": {"name": "code.v1"}}},
    "code in folders": {
        "spec.source": {
            "configMap": {
                "name": "code",
                "items": [{"key": f"k{i}.py", "path": f"pkg/sub-{i}/.hidden/__init__.py"} for i in range(128)],
            }
        }
    },
    "code in a repository": {
        "spec.source": {"git": {"repository": "https://git.example/a/b.git", "revision": "0a" * 20}}
    },
    "code from an internal server, with a token": {
        "spec.source": {
            "git": {
                "repository": "https://git.example:8443/~me/a%20b",
                "revision": "0a" * 32,
                "path": "src/training",
                "secretName": "git",
                "image": "registry.example/git:1",
            }
        }
    },
    "code in an image": {
        "spec.source": {"image": {"reference": "registry.example/code@sha256:" + "0" * 64, "path": "src/training"}}
    },
    "code in an image that is pulled": {"spec.source": {"image": {"reference": "code:1", "pullPolicy": "Always"}}},
    "code by ssh": {
        "spec.source": {
            "git": {"repository": "ssh://git@git.example:22/a.git", "revision": "0a" * 20, "secretName": "key"}
        }
    },
    "code by ssh, short": {
        "spec.source": {"git": {"repository": "git@git.example:me/a.git", "revision": "0a" * 20, "secretName": "key"}}
    },
    "nested module": {"spec.trainer.trainFunc": "pkg.sub.digits:train_func"},
    "a framework": {"spec.trainer.framework": "Torch"},
    "a custom trainer": {"spec.trainer": {"build": "digits:make_trainer", "trainLoopConfig": {"lr": 0.1}}},
    "a script": {"spec.trainer": {"entrypoint": ["python", "-u", "train.py", "--lr", "0.1"]}},
    "config of any shape": {
        "spec.trainer.trainLoopConfig": {"lr": 0.001, "layers": [1, {"a": None}], "x": {"y": True}}
    },
    "two pods of two": {"spec.scaling": {"numWorkers": 4, "workersPerPod": 2}},
    "GPUs": {
        "spec.scaling": {
            "numWorkers": 8,
            "workersPerPod": 8,
            "useGPU": True,
            "resourcesPerWorker": {"cpu": "500m", "memory": "16Gi", "nvidia.com/gpu": 1, "rdma/hca": "1"},
        },
        "spec.trainer.backend": {"name": "nccl", "timeoutSeconds": 600},
    },
    "parts of GPUs": {
        "spec.scaling": {
            "useGPU": True,
            "gpuResourceName": "nvidia.com/mig-1g.5gb",
            "resourcesPerWorker": {"nvidia.com/mig-1g.5gb": 1, "rdma/hca": 1},
        }
    },
    "GPUs with shares of memory": {
        "spec.scaling": {"useGPU": True, "resourcesPerWorker": {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 3000}}
    },
    "AMD's GPUs": {"spec.scaling": {"useGPU": True, "gpuResourceName": "amd.com/gpu"}},
    "Intel's GPUs": {"spec.scaling": {"useGPU": True, "gpuResourceName": "gpu.intel.com/xe"}},
    "shared GPUs": {"spec.scaling": {"useGPU": True, "gpuResourceName": "nvidia.com/gpu.shared"}},
    "a priority and a rack": {
        "spec.podTemplate": {"spec": {"priorityClassName": "high"}},
        "spec.scheduling": {"priorityClassName": "high", "topology": {"key": "example.com/rack"}},
    },
    "one pod": {"spec.scaling": {"numWorkers": 4, "workersPerPod": 4, "placementStrategy": "STRICT_PACK"}},
    "one node per worker": {"spec.scaling": {"numWorkers": 4, "placementStrategy": "STRICT_SPREAD"}},
    "spread": {"spec.scaling": {"numWorkers": 4, "workersPerPod": 2, "placementStrategy": "SPREAD"}},
    "selected nodes": {
        "spec.scaling": {
            "useGPU": True,
            "acceleratorType": "AMD-Instinct-MI250X-MI250",
            "rayLabelSelector": {"example.com/pool": "gpu-1", "zone": "in(a, b)", "spot": "!true", "x.y": "!in(a,b.c)"},
        }
    },
    "a CPU limit": {
        "spec.scaling": {"numWorkers": 3, "workersPerPod": 3, "resourcesPerWorker": {"cpu": "100m"}},
        "spec.worker": {"overhead": {"cpu": "50m"}, "podTemplate": limited({"cpu": "350m", "hugepages-2Mi": "1Gi"})},
        "spec.podTemplate": limited({"cpu": 2}),
    },
    "torch by tcp": {"spec.trainer.backend": {"name": "gloo", "initMethod": "tcp"}},
    "XGBoost": {"spec.trainer.framework": "XGBoost", "spec.trainer.backend": {"name": "rabit"}},
    **{
        f"{name} without options": {"spec.trainer.framework": name, "spec.trainer.backend": {}}
        for name in get_args(Framework)
    },
    "fractions and bytes": {"spec.scaling.resourcesPerWorker": {"cpu": "0.5", "memory": 1073741824}},
    "fractions of a unit": {"spec.scaling.resourcesPerWorker": {"memory": "1.5Gi"}},
    "a private image": {"spec.imagePullPolicy": "Always", "spec.imagePullSecrets": [{"name": "registry"}]},
    "a digest": {"spec.image": "registry.example:5000/a/b@sha256:" + "0" * 64},
    "created suspended": {"spec.suspend": True, "spec.suspendGraceSeconds": 0},
    "limits": {
        "spec.activeDeadlineSeconds": 86400,
        "spec.startDeadlineSeconds": 600,
        "spec.restartDeadlineSeconds": 600,
        "spec.partialStartDeadlineSeconds": 0,
        "spec.progressDeadlineSeconds": 1800,
        "spec.keepPodsSeconds": 0,
        "spec.ttlSecondsAfterFinished": 0,
    },
    "a low metrics port": {"spec.metrics": {"port": 9999}},
    "a high metrics port": {"spec.metrics": {"port": 30000}},
    "Ray's dashboard": {"spec.ray": {"dashboard": True}},
    "no second attempt": {"spec.backoffLimit": 0},
    "a claim": {"spec.run": {"storagePath": "/runs", "storageVolume": CLAIM}},
    "an object store": {"spec.run.storagePath": "s3://bucket/experiments?region=eu-central-1"},
    "a self-hosted object store": {
        "spec.run.storagePath": "s3://bucket/runs?endpoint_override=minio.storage:9000&scheme=http"
    },
    "an at sign in a path": {"spec.run.storagePath": "s3://bucket/people/me@example.com/runs"},
    "Google": {"spec.run.storagePath": "gs://bucket/runs"},
    "Azure": {"spec.run.storagePath": "abfss://container@account.dfs.core.windows.net/runs"},
    "callbacks": {"spec.run.callbacks": ["mine:Notify", "pkg.sub:Stop"]},
    "metrics of the progress": {"spec.run.progress": {"metric": "seen", "totalMetric": "all"}},
    "a run name": {"spec.run.name": "Digits_v1.2"},
    "logs that are kept": {"spec.logs": {"archive": "All", "archivePerRank": "64Ki", "archivePerRun": "1Mi"}},
    "logs that are not kept": {"spec.logs": {"archive": "None"}},
    "quiet": {"spec.run.logLevel": "WARNING"},
    "checkpoints": {"spec.run.checkpoint": {"numToKeep": 3, "scoreAttribute": "loss", "scoreOrder": "min"}},
    "environment": {
        "spec.env": [
            {"name": "A", "value": "1"},
            {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": True}}},
            {"name": "C", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
            {"name": "D", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}},
        ],
        "spec.envFrom": [{"prefix": "S3_", "secretRef": {"name": "s3"}}, {"configMapRef": {"name": "settings"}}],
    },
    "a runtime environment": {
        "spec.runtimeEnv": {
            "env_vars": {"A": "1", "PYTHONPATH": "/opt/lib"},
            "pip": {"packages": ["a==1"], "pip_check": True, "pip_install_options": ["--index-url=https://i.example"]},
            "working_dir": "s3://bucket/code.zip",
            "py_modules": ["pkg", "/opt/wheels/a-1-py3-none-any.whl"],
            "excludes": ["data/"],
            "config": {"setup_timeout_seconds": 60, "eager_install": False},
        }
    },
    "packages as a list": {"spec.runtimeEnv": {"uv": ["a", "b==2"]}},
    "packages from a file": {"spec.runtimeEnv": {"pip": "requirements.txt"}},
    "packages from conda": {"spec.runtimeEnv": {"conda": {"dependencies": ["pip", {"pip": ["a"]}]}}},
    "templates": {
        "spec.podTemplate": {
            "metadata": {"labels": {"team": "vision"}, "annotations": {"example.com/a": "b"}},
            "spec": {
                "nodeSelector": {"pool": "gpu"},
                "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
                "volumes": [{"name": "cache", "emptyDir": {}}],
                "containers": [
                    {"name": "ray", "volumeMounts": [{"name": "cache", "mountPath": "/cache"}]},
                    {"name": "sidecar", "image": "sidecar:1", "command": ["run"]},
                ],
            },
        },
        "spec.head.podTemplate": {"spec": {"priorityClassName": "high"}},
        "spec.worker.podTemplate": {"spec": {"schedulerName": "other"}},
    },
    "sizes": {
        "spec.head.resources": {"cpu": 1, "memory": "2Gi"},
        "spec.worker": {
            "extraResources": {"cpu": "2", "memory": "4Gi"},
            "overhead": {"memory": "2Gi"},
            "sharedMemory": "2Gi",
            "objectStore": "1Gi",
        },
    },
    "datasets": {
        "spec.datasets": {
            "train": {"format": "parquet", "uri": "s3://bucket/digits/?region=eu-central-1"},
            "validation_2": {"format": "csv", "uri": "/data/validation.csv", "split": False},
            "_made": {"function": "pkg.data:build"},
        },
        "spec.worker.extraResources": {"memory": "1Gi"},
    },
    "a little more than one CPU for the data": {
        "spec.datasets": {"train": {"format": "text", "uri": "/data"}},
        "spec.scaling": {"numWorkers": 2, "workersPerPod": 2, "resourcesPerWorker": {"cpu": "700m"}},
        "spec.worker.extraResources": {"cpu": "601m"},
    },
    "no datasets, no CPU for them": {"spec.worker.extraResources": {"cpu": "0"}},
    "templates that a program wrote": {
        "metadata.creationTimestamp": None,
        "spec.podTemplate": MADE_BY_A_PROGRAM,
        "spec.head": {"podTemplate": EMPTY_BY_A_PROGRAM},
        "spec.worker": {"podTemplate": {"metadata": NULLS, "spec": {"containers": None}}},
        "status": {},
    },
    "templates that are empty": {
        "spec.podTemplate": {"metadata": None, "spec": None},
        "spec.head.podTemplate": {"spec": {"containers": [{"name": "ray", "resources": {"limits": None}}]}},
        "spec.worker.sharedMemory": "1Gi",
    },
    "pods without fixed ids": {"spec.podUser": "Cluster"},
    "pods with fixed ids": {"spec.podUser": "Fixed"},
    "labels and annotations of all children": {
        "spec.childMetadata": {
            "labels": {
                "team": "vision",
                "example.com/cost-center": "4.2_a-B",
                "app.kubernetes.io/name": "",
                "a": "x" * 63,
            },
            "annotations": {"example.com/owner": "vision@example.com", "note": ""},
        }
    },
    "no labels of all children": {"spec.childMetadata": {}},
    "sidecars": {
        "spec.podTemplate.spec": {
            "initContainers": [
                {"name": "proxy", "image": "proxy:1", "restartPolicy": "Always"},
                {"name": "wait", "image": "wait:1", "restartPolicy": "Never"},
            ],
            "containers": [{"name": "ray", "restartPolicy": "Never"}],
        }
    },
    "a volume of its own for the shared memory of all pods": {"spec.podTemplate": OWN_SHARED_MEMORY},
    "a volume of its own for the shared memory of the workers": {"spec.worker.podTemplate": OWN_SHARED_MEMORY},
    "an own volume for the head's shared memory": {
        "spec.head.podTemplate": OWN_SHARED_MEMORY,
        "spec.worker.sharedMemory": "1Gi",
    },
    "managed by another controller": {"spec.managedBy": "kueue.x-k8s.io/multikueue"},
}


@pytest.mark.parametrize("changes", VALID.values(), ids=VALID.keys())
def test_a_valid_job_is_accepted_and_parsed(api_server: ApiServer, changes: dict[str, Any]) -> None:
    job = make_job(changes)
    answer = api_server.request("POST", PATH, job, dryRun="All", fieldValidation="Strict")
    assert answer.status == 201, answer.message
    spec = parse_spec(answer.body["spec"], name=answer.body["metadata"]["name"])
    # The stored job and the file lead to the same spec.
    assert spec == parse_spec(job["spec"])


@pytest.mark.parametrize("name", ["templates that a program wrote", "templates that are empty"])
def test_a_job_that_a_program_wrote_is_accepted_by_server_side_apply(api_server: ApiServer, name: str) -> None:
    job = make_job(VALID[name])
    answer = api_server.request(
        "PATCH",
        f"{PATH}/digits",
        job,
        content_type="application/apply-patch+yaml",
        fieldManager="flux",
        fieldValidation="Strict",
        dryRun="All",
    )
    assert answer.status == 201, answer.message
    assert parse_spec(answer.body["spec"]) == parse_spec(job["spec"])


def test_defaults_are_stored(api_server: ApiServer) -> None:
    stored = api_server.request("POST", PATH, make_job(), dryRun="All").body
    assert stored["spec"]["scaling"] == {"useGPU": False, "workersPerPod": 1, "placementStrategy": "PACK"}
    assert stored["spec"]["worker"] == {}, "its defaults depend on useGPU and datasets"
    assert "framework" not in stored["spec"]["trainer"]
    assert stored["spec"]["backoffLimit"] == 3
    assert stored["spec"]["suspend"] is False
    assert "suspendGraceSeconds" not in stored["spec"], "its default depends on useGPU"
    assert stored["spec"]["managedBy"] == "railhead.dev/operator"


def test_a_new_job_has_an_observed_generation_of_minus_one(api_server: ApiServer) -> None:
    """Generic tools treat a status without observedGeneration as final."""
    stored = api_server.request("POST", PATH, make_job(), dryRun="All").body
    assert stored["status"] == {"observedGeneration": -1, "attempt": 0, "round": 0}
    assert parse_status(stored["status"]).observed_generation == -1


def test_a_user_cannot_write_the_status(api_server: ApiServer) -> None:
    job = make_job() | {"status": {"phase": "Succeeded", "observedGeneration": 1}}
    stored = api_server.request("POST", PATH, job, dryRun="All").body
    assert "phase" not in stored["status"]
