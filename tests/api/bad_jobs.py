"""Jobs that `kubectl apply` must reject: what a user could get wrong, and the expected message."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.api.trainjobs import ABSENT

RAY = "spec.podTemplate.spec.containers"


@dataclass(frozen=True)
class Bad:
    """A job that is wrong in one way.

    Attributes:
        field: the path that the error must name.
        message: a part of the error's text.
        changes: to the smallest valid job.
    """

    field: str
    message: str
    changes: dict[str, Any]


def _one(path: str, value: Any, message: str, *, at: str = "") -> Bad:
    return Bad(at or path, message, {path: value})


def _unknown(path: str, value: Any) -> Bad:
    return Bad(path, "unknown field", {path: value})


def _worker(resources: dict[str, Any], message: str, *, at: str = "") -> Bad:
    return _one("spec.scaling.resourcesPerWorker", resources, message, at=at)


def _gpu(path: str, value: Any) -> Bad:
    return Bad(path, "should", {"spec.scaling.useGPU": True, path: value})


def _template(spec: dict[str, Any], message: str, *, at: str) -> Bad:
    return _one("spec.podTemplate", {"spec": spec}, message, at=at)


def _limit(cpu: str) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "ray", "resources": {"limits": {"cpu": cpu}}}]}}


def _shm(path: str) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "ray", "volumeMounts": [{"name": "own", "mountPath": path}]}]}}


def _resources(resources: dict[str, Any], message: str, *, at: str = f"{RAY}[0]") -> Bad:
    return _template({"containers": [{"name": "ray", "resources": resources}]}, message, at=at)


def _env(variable: dict[str, Any], message: str, *, at: str = "spec.env[0]") -> Bad:
    return _one("spec.env", [variable], message, at=at)


def _rule(rule: dict[str, Any], message: str, *, at: str = "") -> Bad:
    return _one("spec.failurePolicy", {"rules": [rule]}, message, at=f"spec.failurePolicy.rules[0]{at}")


def _metric_rule(message: str, *, at: str = "", **rule: Any) -> Bad:
    rule = {"name": "r", "action": "Warn", **rule}
    return _one("spec.metricPolicy", {"rules": [rule]}, message, at=f"spec.metricPolicy.rules[0]{at}")


def _git(message: str, *, at: str = "", **changes: Any) -> Bad:
    valid = {"repository": "https://git.example/a.git", "revision": "0a" * 20}
    git = {name: value for name, value in {**valid, **changes}.items() if value is not None}
    return _one("spec.source", {"git": git}, message, at=f"spec.source.git{at}")


def _backend(framework: str, options: dict[str, Any], message: str) -> Bad:
    [option] = options
    trainer = {"trainFunc": "m:f", "framework": framework, "backend": options}
    return _one("spec.trainer", trainer, message, at=f"spec.trainer.backend.{option}")


def _items(items: list[dict[str, Any]], message: str, *, at: str = "") -> Bad:
    source = {"configMap": {"name": "code", "items": items}}
    return _one("spec.source", source, message, at=f"spec.source.configMap.items{at}")


def _script(change: dict[str, Any], message: str) -> Bad:
    [(path, value)] = change.items()
    return Bad(f"spec.{path}", message, {"spec.trainer": {"entrypoint": ["python", "train.py"]}, f"spec.{path}": value})


NAMES = [
    _one("metadata.name", "a" * 39, "at most 38"),
    _one("metadata.name", "digits.v2", "lower-case letters, digits and -"),
    _one("metadata.name", "3d-net", "starting with a letter"),
]
TOP = [
    Bad("spec", "Required value", {"spec": ABSENT}),
    _one("spec.image", ABSENT, "Required value"),
    _one("spec.image", "", "at least 1 chars"),
    _one("spec.image", "my image", "should match"),
    _one("spec.image", 7, "must be of type string"),
    _one("spec.image", "x" * 513, "more than 512"),
    _one("spec.imagePullPolicy", "Sometimes", "supported values"),
    _one("spec.imagePullSecrets", [{}], "Required value", at="spec.imagePullSecrets[0].name"),
    _one("spec.imagePullSecrets", ["registry"], "must be of type object", at="spec.imagePullSecrets[0]"),
    _one("spec.imagePullSecrets", [{"name": "a"}, {"name": "a"}], "Duplicate value", at="spec.imagePullSecrets[1]"),
    _one("spec.suspend", "yes", "must be of type boolean"),
    _one("spec.podUser", "root", "supported values"),
    _unknown("spec.childMetadata.name", "a"),
    *(
        _one(f"spec.childMetadata.{kind}", {key: "a"}, message)
        for kind in ("labels", "annotations")
        for key, message in (
            ("railhead.dev/job-uid", "Railhead's own"),
            ("app.kubernetes.io/managed-by", "Railhead's own"),
            ("no key", "a key must match"),
            ("-a", "a key must match"),
            ("a/b/c", "a key must match"),
            ("A.example/b", "a key must match"),
        )
    ),
    _one("spec.childMetadata.labels", {"team": "a b"}, "should match", at="spec.childMetadata.labels.team"),
    _one("spec.childMetadata.labels", {"team": "x" * 64}, "more than 63", at="spec.childMetadata.labels.team"),
    _one("spec.childMetadata.labels", {f"k{i}": "" for i in range(33)}, "at most 32"),
    _one("spec.suspendGraceSeconds", -1, "greater than or equal to 0"),
    _one("spec.suspendGraceSeconds", 86401, "less than or equal to 86400"),
    _one("spec.activeDeadlineSeconds", 0, "greater than or equal to 1"),
    _one("spec.startDeadlineSeconds", 31536001, "less than or equal to 31536000"),
    _one("spec.restartDeadlineSeconds", "1h", "must be of type integer"),
    _one("spec.partialStartDeadlineSeconds", -1, "greater than or equal to 0"),
    _one("spec.partialStartDeadlineSeconds", 31536001, "less than or equal to 31536000"),
    _one("spec.keepPodsSeconds", -1, "greater than or equal to 0"),
    _one("spec.ttlSecondsAfterFinished", -1, "greater than or equal to 0"),
    _one("spec.progressDeadlineSeconds", 0, "greater than or equal to 1"),
    _one("spec.metrics", {}, "Required value", at="spec.metrics.port"),
    _one("spec.ray", {"dashboard": "yes"}, "must be of type boolean", at="spec.ray.dashboard"),
    _one("spec.metrics", {"port": 1023}, "greater than or equal to 1024", at="spec.metrics.port"),
    _one("spec.metrics", {"port": 65536}, "less than or equal to 65535", at="spec.metrics.port"),
    _one("spec.metrics", {"port": 10000}, "ports 10000-29999 are Ray's", at="spec.metrics.port"),
    _one("spec.metrics", {"port": 29999}, "ports 10000-29999 are Ray's", at="spec.metrics.port"),
    _one("spec.backoffLimit", -1, "greater than or equal to 0"),
    _one("spec.backoffLimit", 901, "less than or equal to 900"),
    _one("spec.backoffLimit", "3", "must be of type integer"),
    _one("spec.managedBy", "kueue", "should match"),
    _one("spec.managedBy", "", "at least 1 chars"),
    _unknown("spec.worker.replicas", 2),
    _unknown("spec.workers", 2),
]
TRAINER = [
    _one("spec.trainer", ABSENT, "Required value"),
    _one("spec.trainer", {}, "exactly one of trainFunc, build and entrypoint must be set"),
    _one("spec.trainer.build", "a:b", "exactly one of trainFunc, build and", at="spec.trainer"),
    _one("spec.trainer.entrypoint", ["python", "a.py"], "exactly one of trainFunc, build and", at="spec.trainer"),
    _one("spec.trainer", {"entrypoint": []}, "at least 1 items", at="spec.trainer.entrypoint"),
    _one("spec.trainer", {"entrypoint": "python a.py"}, "must be of type array", at="spec.trainer.entrypoint"),
    _one("spec.trainer", {"entrypoint": ["python", ""]}, "at least 1 chars", at="spec.trainer.entrypoint[1]"),
    _one("spec.trainer", {"entrypoint": ["a"] * 65}, "at most 64 items", at="spec.trainer.entrypoint"),
    _script({"trainer.trainLoopConfig": {}}, "requires trainFunc or build"),
    _script({"trainer.framework": "Torch"}, "requires trainFunc;"),
    _script({"runtimeEnv": {"pip": ["a"]}}, "pass it to ray.init or to the RunConfig in the script"),
    _script({"run.checkpoint": {"numToKeep": 2}}, "pass a CheckpointConfig to the RunConfig in the script"),
    _script({"datasets": {"train": {"format": "csv", "uri": "s3://b/a"}}}, "read the data in the script"),
    _script({"run.failure": {"maxFailures": 2}}, "pass a FailureConfig to the RunConfig in the script"),
    _script({"run.logLevel": "DEBUG"}, "pass a LoggingConfig to the RunConfig in the script"),
    Bad(
        "spec.scaling.minWorkers",
        "cannot be combined with trainer.entrypoint",
        {"spec.trainer": {"entrypoint": ["a"]}, "spec.scaling": {"minWorkers": 1, "maxWorkers": 2}},
    ),
    _one("spec.trainer", {"build": "make_trainer"}, "should match", at="spec.trainer.build"),
    _one("spec.trainer", {"build": "a:b", "framework": "Torch"}, "requires trainFunc", at="spec.trainer.framework"),
    _one(
        "spec.trainer",
        {"build": "a:b", "validationFunction": "a:c"},
        "requires trainFunc",
        at="spec.trainer.validationFunction",
    ),
    _one(
        "spec.trainer", {"build": "a:b", "backend": {"name": "gloo"}}, "requires trainFunc", at="spec.trainer.backend"
    ),
    _one("spec.trainer.trainFunc", "digits.py", "should match"),
    _one("spec.trainer.trainFunc", "digits.py:train_func", "write train:main for main of train.py"),
    _one("spec.trainer.trainFunc", "digits:", "should match"),
    _one("spec.trainer.trainFunc", ":train_func", "should match"),
    _one("spec.trainer.trainFunc", "a:b:c", "should match"),
    _one("spec.trainer.trainFunc", "m:" + "f" * 300, "more than 256"),
    _one("spec.trainer.trainFunc", "digits.train_func", "should match"),
    _one("spec.trainer.trainFunc", "my-module:train", "should match"),
    _one("spec.trainer.trainFunc", "digits:train_func()", "should match"),
    _one("spec.trainer.framework", "PyTorch", "supported values"),
    _one("spec.trainer.trainLoopConfig", [1, 2], "must be of type object"),
    _one("spec.trainer.backend", "gloo", "must be of type object"),
    _one("spec.trainer.backend.name", "mpi", "supported values"),
    _one("spec.trainer.backend.name", "nccl", "needs spec.scaling.useGPU"),
    _one("spec.trainer.backend.name", "rabit", "XGBoost supports rabit"),
    _backend("XGBoost", {"name": "gloo"}, "XGBoost supports rabit"),
    _backend("TensorFlow", {"name": "gloo"}, "other frameworks have no such option"),
    _backend("LightGBM", {"timeoutSeconds": 60}, "only Torch supports it; remove it"),
    _backend("JAX", {"initMethod": "tcp"}, "only Torch supports it; remove it"),
    _backend("Python", {"timeoutSeconds": 60}, "only Torch supports it; remove it"),
    _one("spec.trainer.backend.initMethod", "file", "supported values"),
    _one("spec.trainer.backend.timeoutSeconds", 0, "greater than or equal to 1"),
    _one("spec.trainer.backend.timeoutSeconds", 1.5, "must be of type integer"),
    _unknown("spec.trainer.trainLoop", "a:b"),
]
SOURCE = [
    _one("spec.source", {}, "exactly one of inline, configMap, git and image"),
    _one("spec.source", {"inline": {"a.py": ""}, "configMap": {"name": "code"}}, "exactly one of"),
    _one("spec.source.inline", {}, "at least 1 properties"),
    _one("spec.source.inline", {"../a.py": ""}, "a key must match"),
    _one("spec.source.inline", {".hidden": ""}, "a key must match"),
    _one("spec.source.inline", {"pkg/a.py": ""}, "a key must match"),
    _one("spec.source.inline", {"a.py": 1}, "must be of type string", at="spec.source.inline.a.py"),
    _one("spec.source.inline", {f"m{i}.py": "" for i in range(33)}, "at most 32"),
    _one("spec.source.inline", {"a.py": "x" * 16_384, "b.py": "x" * 16_385}, "at most 32 KiB in total"),
    _one("spec.source.inline", {"a.py": "é" * 16_385}, "kubectl create configmap NAME --from-file=FOLDER"),
    _one("spec.source.inline", {"a.py": "x" * 262_144}, "source.configMap: {name: NAME}"),
    _one("spec.source.configMap", {}, "Required value", at="spec.source.configMap.name"),
    _one("spec.source.configMap.name", "My_Code", "should match"),
    _items([], "at least 1 items"),
    _items([{"key": "a.py"}], "Required value", at="[0].path"),
    _items([{"key": "a/b.py", "path": "a.py"}], "should match", at="[0].key"),
    *(
        _items([{"key": "a.py", "path": path}], "should match", at="[0].path")
        for path in ("/etc/a.py", "../a.py", "pkg/../a.py", "pkg/..a", "./a.py", "pkg//a.py", "pkg/", "a b.py", "a\\b")
    ),
    _items([{"key": "a.py", "path": "a.py"}, {"key": "b.py", "path": "a.py"}], "Duplicate value", at="[1]"),
    _items([{"key": "a", "path": "pkg"}, {"key": "b", "path": "pkg/b"}], "a file and the folder of another one"),
    _one("spec.source", {"image": {}}, "Required value", at="spec.source.image.reference"),
    _one("spec.source.image", {"reference": "my code"}, "should match", at="spec.source.image.reference"),
    _one("spec.source.image", {"reference": "a", "path": "/a"}, "should match", at="spec.source.image.path"),
    _one("spec.source.image", {"reference": "a", "pullPolicy": "No"}, "supported values", at="spec.source.image.pullP"),
    _one("spec.source", {"image": {"reference": "a"}, "inline": {"a.py": ""}}, "exactly one of"),
    _git("Required value", at=".repository", repository=None),
    _git("Required value", at=".revision", revision=None),
    *(
        _git("must be a full commit hash of 40 or 64 digits", at=".revision", revision=revision)
        for revision in ("main", "v1.0", "0a" * 19, "0A" * 20, "0a" * 20 + "^", "0a" * 20 + "\n", "refs/heads/main")
    ),
    *(
        _git("must be https://HOST/PATH, ssh://", at=".repository", repository=repository, secretName="s")
        for repository in (
            "http://git.example/a.git",
            "https://user:word@git.example/a.git",
            "https://user@git.example/a.git",
            "https://git.example",
            "ssh://me:word@git.example/a.git",
            "ssh://-oProxyCommand=x/a.git",
            "git@-oProxyCommand=x:a",
            "git@git.example:-a",
            "file:///a.git",
            "/a.git",
            "ext::sh -c id",
            "--upload-pack=x",
            "https://git.example/a.git --x",
            "https://git.example/a.git\n",
        )
    ),
    _git("ssh needs a Secret with a private key", at=".secretName", repository="git@git.example:a.git"),
    _git("should match", at=".path", path="../src"),
    _git("should match", at=".path", path="/src"),
    _git("should match", at=".secretName", secretName="My_Secret"),
    _git("should match", at=".image", image="my image"),
    _one(
        "spec.source",
        {"configMap": {"name": "c"}, "git": {"repository": "https://git.example/a", "revision": "0a" * 20}},
        "exactly one of",
    ),
]
ELASTIC = {"minWorkers": 2, "maxWorkers": 4}


def _elastic(field: str, message: str, **scaling: Any) -> Bad:
    return Bad(f"spec.scaling.{field}", message, {"spec.scaling": {**ELASTIC, **scaling}})


SCALING = [
    _elastic("numWorkers", "must not be set together with minWorkers", numWorkers=3),
    _elastic("maxWorkers", "must not be less than minWorkers", maxWorkers=1),
    _elastic("desiredWorkers", "must be between them", desiredWorkers=5),
    _elastic("desiredWorkers", "must be between them", desiredWorkers=1),
    _elastic(
        "workersPerPod", "must divide minWorkers, maxWorkers and desiredWorkers", workersPerPod=2, desiredWorkers=3
    ),
    _elastic("workersPerPod", "must divide minWorkers, maxWorkers and desiredWorkers", workersPerPod=4),
    _elastic("startWaitSeconds", "greater than or equal to 0", startWaitSeconds=-1),
    _one("spec.scaling.minWorkers", 2, "must be set together"),
    _one("spec.scaling.desiredWorkers", 2, "needs minWorkers and maxWorkers"),
    _one("spec.scaling.startWaitSeconds", 2, "needs minWorkers and maxWorkers"),
    _one("spec.scaling.elasticResizeMonitorIntervalSeconds", 2, "needs minWorkers and maxWorkers"),
    _one("spec.scaling.workersPerPod", 2, "must divide spec.scaling.numWorkers"),
    _one("spec.scaling.numWorkers", 0, "greater than or equal to 1"),
    _one("spec.scaling.numWorkers", 4097, "less than or equal to 4096"),
    _one("spec.scaling.numWorkers", "two", "must be of type integer"),
    _one("spec.scaling.useGPU", "yes", "must be of type boolean"),
    _one("spec.scaling.workersPerPod", 0, "greater than or equal to 1"),
    Bad(
        "spec.scaling.workersPerPod",
        "less than or equal to 64",
        {"spec.scaling": {"numWorkers": 65, "workersPerPod": 65}},
    ),
    Bad("spec.scaling.workersPerPod", "must divide", {"spec.scaling": {"numWorkers": 4, "workersPerPod": 3}}),
    _worker({"nvidia.com/gpu": 1}, "must be true when", at="spec.scaling.useGPU"),
    _worker({"amd.com/gpu": 1}, "GPUs of another name than gpuResourceName"),
    _worker({"nvidia.com/mig-1g.5gb": 1}, "GPUs of another name than gpuResourceName"),
    _one("spec.scaling.gpuResourceName", "amd.com/gpu", "needs useGPU"),
    *(
        Bad(
            "spec.scaling.gpuResourceName",
            "must be a resource that Ray counts as a GPU",
            {"spec.scaling": {"useGPU": True, "gpuResourceName": name}},
        )
        for name in ("google.com/tpu", "habana.ai/gaudi", "aws.amazon.com/neuron", "rdma/hca", "gpu", "nvidia.com/gpus")
    ),
    *(
        Bad(
            "spec.scaling.resourcesPerWorker",
            "GPUs of another name than gpuResourceName",
            {"spec.scaling": {"useGPU": True, "resourcesPerWorker": resources, **named}},
        )
        for named, resources in (
            ({}, {"nvidia.com/mig-1g.5gb": 1}),
            ({}, {"nvidia.com/gpu": 1, "amd.com/gpu": 1}),
            ({"gpuResourceName": "amd.com/gpu"}, {"nvidia.com/gpu": 1}),
        )
    ),
    Bad(
        "spec.scaling.resourcesPerWorker",
        "whole number",
        {"spec.scaling": {"useGPU": True, "resourcesPerWorker": {"nvidia.com/gpu": "0.5"}}},
    ),
    Bad(
        "spec.scaling.resourcesPerWorker",
        "greater than 0",
        {"spec.scaling": {"useGPU": True, "resourcesPerWorker": {"nvidia.com/gpu": 0}}},
    ),
    _worker({"cpu": "two"}, "should match", at="spec.scaling.resourcesPerWorker.cpu"),
    _worker({"cpu": "4Gi"}, "number of CPUs"),
    _worker({"cpu": "0"}, "greater than 0"),
    _worker({"cpu": -1}, "negative"),
    _worker({"memory": "16"}, "without a unit is in bytes"),
    _worker({"memory": 16}, "without a unit is in bytes"),
    _worker({"memory": "512m"}, "without a unit is in bytes"),
    _worker({"memory": "16GB"}, "should match", at="spec.scaling.resourcesPerWorker.memory"),
    _worker({"gpu": 1}, "extended resource such as nvidia.com/gpu"),
    _worker({"CPU": 1}, "a key must be cpu, memory"),
    _one("spec.scaling.placementStrategy", "pack", "supported values"),
    Bad(
        "spec.scaling.placementStrategy",
        "STRICT_PACK needs all workers in one pod",
        {"spec.scaling": {"numWorkers": 4, "workersPerPod": 2, "placementStrategy": "STRICT_PACK"}},
    ),
    Bad(
        "spec.scaling.placementStrategy",
        "so workersPerPod must be 1",
        {"spec.scaling": {"numWorkers": 4, "workersPerPod": 2, "placementStrategy": "STRICT_SPREAD"}},
    ),
    _one("spec.scaling.acceleratorType", "H100", "needs useGPU"),
    _gpu("spec.scaling.acceleratorType", ""),
    _gpu("spec.scaling.acceleratorType", "NVIDIA H100"),
    _one("spec.scaling.rayLabelSelector", {}, "at least 1 properties"),
    _one("spec.scaling.rayLabelSelector", "pool=a", "must be of type object"),
    *(
        _one("spec.scaling.rayLabelSelector", {"pool": text}, "", at="spec.scaling.rayLabelSelector.pool")
        for text in ("", "!", "in()", "in(a", "in(a b)", "in(a,)", "(a)", "!!a", "-a", "a,b", "notin(a)", "a" * 64)
    ),
    *(
        _one("spec.scaling.rayLabelSelector", {key: "a"}, "a key must match")
        for key in ("pool/", "/pool", "-pool", "a/b/c", "Example/pool", "po ol")
    ),
    _one("spec.scaling.rayLabelSelector", {"ray.io/accelerator-type": "H100"}, "labels of ray.io are reserved by Ray"),
    _unknown("spec.scaling.num_workers", 2),
    _unknown("spec.scaling.useGpu", True),
]
RUN = [
    _one("spec.run", ABSENT, "Required value"),
    _one("spec.run.storagePath", ABSENT, "Required value"),
    _one("spec.run.storagePath", "runs", "should match"),
    _one("spec.run.storagePath", "/", "should match"),
    _one("spec.run.storagePath", "s3:/bucket", "should match"),
    _one("spec.run.storagePath", "https://bucket/runs", "should match"),
    _one("spec.run.storagePath", "/runs/../etc", "must not contain . or .."),
    *(
        _one("spec.run.storagePath", uri, "must not contain credentials")
        for uri in (
            "s3://AKIAEXAMPLE:secret@bucket/runs",
            "s3://AKIAEXAMPLE:sec/ret@bucket/runs",
            "s3://AKIAEXAMPLE@bucket/runs",
            "s3://bucket/runs?access_key=a&secret_key=b",
            "s3://bucket/runs?region=x&Secret_Key=b",
            "gs://user:secret@bucket/runs",
            "abfss://container:secret@account.dfs.core.windows.net/runs",
            "abfs://:secret@account.dfs.core.windows.net/container/runs",
            "abfss://container@account.dfs.core.windows.net/runs?sas_token=x",
        )
    ),
    _one("spec.run.storageVolume", {}, "Required value", at="spec.run.storageVolume.persistentVolumeClaim"),
    Bad(
        "spec.run.storageVolume",
        "must be an absolute path",
        {
            "spec.run.storagePath": "s3://bucket/runs",
            "spec.run.storageVolume": {"persistentVolumeClaim": {"claimName": "runs"}},
        },
    ),
    Bad(
        "spec.run.storagePath",
        "cannot be mounted over",
        {
            "spec.run.storagePath": "/opt/railhead",
            "spec.run.storageVolume": {"persistentVolumeClaim": {"claimName": "runs"}},
        },
    ),
    _one(
        "spec.run.storageVolume",
        {"persistentVolumeClaim": {"claimName": "Runs"}},
        "should match",
        at="spec.run.storageVolume.persistentVolumeClaim.claimName",
    ),
    _one("spec.run.name", "a/b", "should match"),
    _one("spec.run.name", "r" * 64, "more than 63"),
    _one("spec.run.name", "..", "should match"),
    _one("spec.run.checkpoint.numToKeep", 0, "greater than or equal to 1"),
    _one("spec.run.checkpoint", {"scoreAttribute": "loss", "scoreOrder": "lowest"}, "supported values"),
    _one("spec.run.checkpoint.scoreOrder", "min", "needs scoreAttribute"),
    _one("spec.run.progress", {"metric": "seen"}, "Required value", at="spec.run.progress.totalMetric"),
    _one("spec.run.failure.maxFailures", -1, "greater than or equal to 0"),
    _one("spec.run.logLevel", "warning", "supported values"),
    _one("spec.logs.archive", "Always", "supported values"),
    _one("spec.logs.archivePerRank", "4", "must be at least 64Ki"),
    _one("spec.logs.archivePerRun", "1000", "must be at least 1Mi"),
    _one("spec.logs.archivePerRun", "3Mi", "must be at least archivePerRank, which is 4Mi by default"),
    _one(
        "spec.logs",
        {"archive": "None", "archivePerRank": "8Mi"},
        "have no effect with archive None",
        at="spec.logs.archive",
    ),
    _one("spec.scheduling.nodeAvoidance", "Always", "supported values"),
    _one("spec.scheduling.gangScheduler", "Kueue", "supported values"),
    _one("spec.scheduling.priorityClassName", "High", "should match"),
    *(
        Bad(
            "spec.scheduling.priorityClassName",
            "names another priorityClassName",
            {"spec.scheduling.priorityClassName": "low", at: {"spec": {"priorityClassName": "high"}}},
        )
        for at in ("spec.podTemplate", "spec.head.podTemplate", "spec.worker.podTemplate")
    ),
    _one("spec.scheduling.topology", {"policy": "Required"}, "Required value", at="spec.scheduling.topology.key"),
    _one("spec.scheduling.topology", {"key": "a b"}, "should match", at="spec.scheduling.topology.key"),
    _one("spec.scheduling.topology", {"key": "a", "policy": "Strict"}, "supported values"),
    *(
        Bad("spec.scheduling.topology", message, {"spec.scheduling.topology": {"key": key}, "spec.scaling": scaling})
        for message, key, scaling in (
            ("STRICT_PACK has one worker pod only", "rack", {"placementStrategy": "STRICT_PACK"}),
            ("STRICT_SPREAD needs domains", "kubernetes.io/hostname", {"placementStrategy": "STRICT_SPREAD"}),
        )
    ),
    _one("spec.scheduling.queueName", "Team A", "should match"),
    _one("spec.run.callbacks", ["Mine"], "should match", at="spec.run.callbacks[0]"),
    _one("spec.run.callbacks", [], "at least 1 items"),
    _one("spec.run.callbacks", ["a:B"] * 17, "at most 16 items"),
    _one("spec.run.collectiveTimeoutSeconds", 0, "greater than or equal to 1"),
]
ENV = [
    _env({"value": "1"}, "Required value", at="spec.env[0].name"),
    _env({"name": "A B", "value": "1"}, "should match", at="spec.env[0].name"),
    _env({"name": "A", "value": 1}, "must be of type string", at="spec.env[0].value"),
    _env({"name": "RAILHEAD_ATTEMPT", "value": "1"}, "reserved", at="spec.env[0].name"),
    _env({"name": "RAY_AUTH_MODE", "value": "none"}, "reserved", at="spec.env[0].name"),
    _env({"name": "PYTHONPATH", "value": "/code"}, "reserved", at="spec.env[0].name"),
    _env({"name": "RAY_OVERRIDE_RESOURCES", "value": '{"CPU": 64}'}, "reserved", at="spec.env[0].name"),
    _env({"name": "CUDA_VISIBLE_DEVICES", "value": "0"}, "reserved", at="spec.env[0].name"),
    _env({"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}, "reserved", at="spec.env[0].name"),
    _one("spec.env", [{"name": name, "value": "x" * 32_765} for name in ("AB", "CD", "E")], "at most 64 KiB in total"),
    _one("spec.runtimeEnv.env_vars", dict.fromkeys(("A", "B"), "ä" * 16384), "at most 64 KiB in total"),
    _env({"name": "A", "value": "1", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}, "are mutually exclusive"),
    _env({"name": "A", "valueFrom": {}}, "exactly one of", at="spec.env[0].valueFrom"),
    _env(
        {"name": "A", "valueFrom": {"secretKeyRef": {"name": "s"}}},
        "Required value",
        at="spec.env[0].valueFrom.secretKeyRef.key",
    ),
    _one("spec.env", "A=1", "must be of type array"),
    _one("spec.env", [{"name": "A"}, {"name": "A"}], "Duplicate value", at="spec.env[1]"),
    _one("spec.envFrom", [{}], "exactly one of", at="spec.envFrom[0]"),
    _one("spec.envFrom", [{"secretRef": {"name": ""}}], "at least 1 chars", at="spec.envFrom[0].secretRef.name"),
    _one("spec.envFrom", [{"secret": {"name": "a"}}], "unknown field", at="spec.envFrom[0].secret"),
]
PODS = [
    _one("spec.podTemplate", "x", "must be of type object"),
    _one("spec.podTemplate", {"nodeSelector": {"a": "b"}}, "unknown field", at="spec.podTemplate.nodeSelector"),
    _one(
        "spec.podTemplate",
        {"metadata": {"labels": {"team": 7}}},
        "must be of type string",
        at="spec.podTemplate.metadata.labels.team",
    ),
    _one(
        "spec.podTemplate",
        {"metadata": {"labels": {"railhead.dev/role": "head"}}},
        "reserved",
        at="spec.podTemplate.metadata.labels",
    ),
    _template({"containers": "ray"}, "must be of type array", at=RAY),
    _template({"containers": [{"image": "a"}]}, "Required value", at=f"{RAY}[0].name"),
    _template({"containers": [{"name": "ray", "image": "other:1"}]}, "from spec.image", at=f"{RAY}[0]"),
    _template({"containers": [{"name": "ray", "command": ["sh"]}]}, "from Railhead", at=f"{RAY}[0]"),
    _template(
        {"containers": [{"name": "ray", "env": [{"name": "RAY_AUTH_MODE"}]}]},
        "reserved",
        at=f"{RAY}[0]",
    ),
    _resources({"requests": {"cpu": "1"}}, "so that Ray and the pod agree"),
    _resources({"requests": {"memory": "64Gi"}}, "so that Ray and the pod agree"),
    _resources({"limits": {"memory": "1Gi"}}, "only cpu and hugepages-* may be limited here"),
    _resources({"limits": {"nvidia.com/gpu": "1"}}, "only cpu and hugepages-* may be limited here"),
    _resources({"limits": {"cpu": "lots"}}, "should match", at=f"{RAY}[0].resources.limits.cpu"),
    _resources({"limits": {"cpu": "1900m"}}, "less than the CPUs that the pod requests", at="spec.podTemplate"),
    Bad(
        "spec.worker.podTemplate",
        "less than the CPUs that the pod requests",
        {
            "spec.scaling": {"numWorkers": 4, "workersPerPod": 4, "resourcesPerWorker": {"cpu": "500m"}},
            "spec.worker": {"extraResources": {"cpu": 1}, "podTemplate": _limit("2900m")},
        },
    ),
    Bad(
        "spec.head.podTemplate",
        "less than the CPUs that the pod requests",
        {"spec.head": {"resources": {"cpu": "4"}, "podTemplate": _limit("3")}},
    ),
    _template({"containers": [{"name": "sidecar"}]}, "needs an image", at=f"{RAY}[0]"),
    _template({"containers": [{"name": "ray"}, {"name": "ray"}]}, "Duplicate value", at=f"{RAY}[1]"),
    _template({"restartPolicy": "Always"}, "set by Railhead", at="spec.podTemplate.spec.restartPolicy"),
    _template({"hostname": "me"}, "set by Railhead", at="spec.podTemplate.spec.hostname"),
    _template({"hostnameOverride": "me"}, "set by Railhead", at="spec.podTemplate.spec.hostnameOverride"),
    *(
        _template({"containers": [{"name": "ray", **restarts}]}, "do not restart in their pod", at=f"{RAY}[0]")
        for restarts in (
            {"restartPolicy": "OnFailure"},
            {"restartPolicy": "Always"},
            {"restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]},
            {"restartPolicy": "Never", "restartPolicyRules": [{"action": "RestartAllContainers"}]},
        )
    ),
    _template(
        {"containers": [{"name": "ray"}, {"name": "side", "image": "a", "restartPolicy": "Always"}]},
        "an init container with restartPolicy Always",
        at=f"{RAY}[1]",
    ),
    *(
        _template(
            {"initContainers": [{"name": "proxy", "image": "a", **restarts}]},
            "restartPolicy Always or Never",
            at="spec.podTemplate.spec.initContainers[0]",
        )
        for restarts in (
            {"restartPolicy": "OnFailure"},
            {"restartPolicy": "Always", "restartPolicyRules": [{"action": "RestartAllContainers"}]},
        )
    ),
    _template(
        {"initContainers": [{"name": "railhead-source", "image": "a"}]},
        "reserved",
        at="spec.podTemplate.spec.initContainers[0].name",
    ),
    *(
        _template(
            {"containers": [{"name": "ray", "volumeMounts": [{"name": "a", "mountPath": path}]}]},
            "a volume of Railhead",
            at=f"{RAY}[0].volumeMounts",
        )
        for path in ("/opt/railhead", "/etc/railhead/auth/", "/tmp/railhead", "/var/run/railhead")
    ),
    *(
        Bad("spec.worker.sharedMemory", "remove one of them", {"spec.worker.sharedMemory": "1Gi", path: _shm(folder)})
        for path, folder in (
            ("spec.podTemplate", "/dev/shm"),
            ("spec.worker.podTemplate", "/dev/shm"),
            ("spec.podTemplate", "/dev/shm/"),
        )
    ),
    *(
        _one(at, {"metadata": {field: "a"}}, "only labels and annotations", at=f"{at}.metadata")
        for at, field in (
            ("spec.podTemplate", "name"),
            ("spec.head.podTemplate", "name"),
            ("spec.worker.podTemplate", "creationTimestamp"),
        )
    ),
    _one(
        "spec.podTemplate",
        {"metadata": {"labels": {"app.kubernetes.io/managed-by": "Helm"}}},
        "is railhead",
        at="spec.podTemplate.metadata.labels",
    ),
    _template({"volumes": [{"name": "railhead-auth"}]}, "reserved", at="spec.podTemplate.spec.volumes"),
    _one("spec.head.resources", {"nvidia.com/gpu": 1}, "in scaling.resourcesPerWorker"),
    _one("spec.head.resources", {"memory": "4"}, "without a unit is in bytes"),
    _one(
        "spec.head.podTemplate",
        {"spec": {"subdomain": "x"}},
        "set by Railhead",
        at="spec.head.podTemplate.spec.subdomain",
    ),
    _one("spec.worker.extraResources", {"nvidia.com/gpu": 1}, "in scaling.resourcesPerWorker"),
    _one("spec.worker.overhead", {"cpu": "lots"}, "should match", at="spec.worker.overhead.cpu"),
    _one("spec.worker.objectStore", "10Mi", "at least 80Mi"),
    _one("spec.worker.objectStore", -5, "at least 80Mi"),
    _one("spec.worker.objectStore", "big", "should match"),
    _one("spec.worker.sharedMemory", 512, "without a unit is in bytes"),
    _one(
        "spec.worker.podTemplate",
        {"spec": {"containers": [{"name": "ray", "args": ["x"]}]}},
        "from Railhead",
        at="spec.worker.podTemplate.spec.containers[0]",
    ),
]
FILES = {"train": {"format": "csv", "uri": "/data"}}


def _dataset(dataset: dict[str, Any], message: str, *, at: str = "") -> Bad:
    return _one("spec.datasets", {"train": dataset}, message, at=f"spec.datasets{at}")


def _no_cpu(extra: str, **scaling: Any) -> Bad:
    """Ray Data would wait forever for one full CPU."""
    changes = {"spec.datasets": FILES, "spec.worker.extraResources": {"cpu": extra}, "spec.scaling": scaling}
    return Bad("spec.worker.extraResources", "leaves no CPU for Ray Data", changes)


def _no_cpu_for_validation() -> Bad:
    changes = {"spec.trainer.validationFunction": "a:b", "spec.worker.extraResources": {"cpu": "0"}}
    return Bad("spec.worker.extraResources", "at least 1 more than", changes)


DATASETS = [
    _one("spec.datasets", {}, "at least 1 properties"),
    _one("spec.datasets", {f"d{i}": FILES["train"] for i in range(17)}, "at most 16"),
    _one("spec.datasets", {"my-data": FILES["train"]}, "a key must match"),
    _one("spec.datasets", {"d" * 64: FILES["train"]}, "at most 63 characters"),
    _dataset({}, "exactly one of uri and function"),
    _dataset({"format": "csv", "uri": "/data", "function": "m:f"}, "exactly one of uri and function"),
    _dataset({"uri": "/data"}, "is required with uri", at="[train].format"),
    _dataset({"function": "m:f", "format": "csv"}, "requires uri", at="[train].format"),
    _dataset({"function": "digits.py"}, "should match", at=".train.function"),
    _dataset({"format": "orc", "uri": "/data"}, "supported values", at=".train.format"),
    _dataset({"format": "csv", "uri": "data"}, "should match", at=".train.uri"),
    _dataset({"format": "csv", "uri": "https://example.com/a.csv"}, "should match", at=".train.uri"),
    _dataset({"format": "csv", "uri": "/data/../etc"}, "must not contain . or ..", at="[train].uri"),
    _dataset({"format": "csv", "uri": "s3://bucket/.."}, "must not contain . or ..", at="[train].uri"),
    _dataset({"format": "csv", "uri": "s3://key:secret@bucket/a"}, "must not contain credentials", at="[train].uri"),
    _dataset({"format": "csv", "uri": "/data", "options": {"shuffle": "files"}}, "unknown field", at=".train.options"),
    _dataset({"format": "csv", "uri": "/data", "split": "no"}, "must be of type boolean", at=".train.split"),
    Bad(
        "spec.worker.podTemplate",
        "less than the CPUs that the pod requests",
        {
            "spec.datasets": FILES,  # which need one more CPU
            "spec.worker.podTemplate": {
                "spec": {"containers": [{"name": "ray", "resources": {"limits": {"cpu": "1"}}}]},
            },
        },
    ),
    Bad(
        "spec.datasets",
        "with build pass a DataConfig to the trainer",
        {"spec.trainer": {"build": "m:f"}, "spec.datasets": {"train": {**FILES["train"], "split": False}}},
    ),
    _no_cpu("0"),
    _no_cpu_for_validation(),
    _no_cpu("500m", resourcesPerWorker={"cpu": "500m"}),
    _no_cpu("500m", workersPerPod=5, numWorkers=5, resourcesPerWorker={"cpu": "1.3"}),
]
RUNTIME_ENV = [
    _unknown("spec.runtimeEnv.envVars", {"A": "1"}),
    _unknown("spec.runtimeEnv.container", {"image": "a"}),
    _one("spec.runtimeEnv.env_vars", {"A": 1}, "must be of type string", at="spec.runtimeEnv.env_vars.A"),
    _one("spec.runtimeEnv.env_vars", {"a b": "1"}, "a key must match"),
    *(
        _one("spec.runtimeEnv.env_vars", {name: "1"}, "are reserved")
        for name in ("RAILHEAD_SOURCE", "RAY_AUTH_MODE", "RAY_ADDRESS", "CUDA_VISIBLE_DEVICES")
    ),
    _one("spec.runtimeEnv.working_dir", "", "at least 1 chars"),
    _one("spec.runtimeEnv.py_modules", "pkg", "must be of type array"),
    _one(
        "spec.runtimeEnv.config",
        {"setup_timeout_seconds": 0},
        "greater than or equal to 1",
        at="spec.runtimeEnv.config.setup",
    ),
    _unknown("spec.runtimeEnv.config.log_files", []),
]
DRAIN = [
    _one("spec.worker.drainSeconds", 0, "greater than or equal to 1"),
    _one("spec.worker.drainSeconds", 86401, "less than or equal to 86400"),
]
_NOW_AND_THEN = {"type": "RateBelow", "threshold": "1", "windowSeconds": 60}
METRIC_RULES = [
    _metric_rule("IsNaN, Above, Below and NotImproved need a metric", at=".metric", type="IsNaN"),
    _metric_rule("NoCheckpoint has none", at=".metric", type="NoCheckpoint", metric="loss", windowSeconds=60),
    _metric_rule("Above, Below and RateBelow need a threshold", at=".threshold", type="Above", metric="loss"),
    _metric_rule("IsNaN and NoCheckpoint have none", at=".threshold", type="IsNaN", metric="loss", threshold="1"),
    _metric_rule("only RateBelow takes a percentage", at=".threshold", type="Above", metric="loss", threshold="60%"),
    _metric_rule("RateBelow and NoCheckpoint need it", at=".windowSeconds", type="RateBelow", threshold="1"),
    _metric_rule("RateBelow and NoCheckpoint need it", at=".windowSeconds", type="NoCheckpoint"),
    _metric_rule(
        "NotImproved needs windowSeconds or consecutive",
        at=".windowSeconds",
        type="NotImproved",
        metric="loss",
        mode="min",
    ),
    _metric_rule("NotImproved needs a mode", at=".mode", type="NotImproved", metric="loss", consecutive=3),
    _metric_rule("other types have none", at=".mode", type="IsNaN", metric="loss", mode="min"),
    _metric_rule("use windowSeconds", at=".consecutive", type="NoCheckpoint", windowSeconds=60, consecutive=2),
    _metric_rule("Unsupported value", at=".type", type="Drifts", metric="loss"),
    _metric_rule("Unsupported value", at=".action", **{**_NOW_AND_THEN, "action": "Stop"}),
    _metric_rule("should match", at=".name", **{**_NOW_AND_THEN, "name": "Slow"}),
    _metric_rule("should match", at=".threshold", **{**_NOW_AND_THEN, "threshold": "0x1"}),
    _metric_rule("greater than or equal to 1", at=".windowSeconds", **{**_NOW_AND_THEN, "windowSeconds": 0}),
    _metric_rule("greater than or equal to 1", at=".consecutive", **{**_NOW_AND_THEN, "consecutive": 0}),
    _one("spec.metricPolicy", {"rules": []}, "at least 1 items", at="spec.metricPolicy.rules"),
    _one(
        "spec.metricPolicy",
        {"rules": [{"name": f"r{n}", "action": "Warn", **_NOW_AND_THEN} for n in range(17)]},
        "at most 16 items",
        at="spec.metricPolicy.rules",
    ),
    _one(
        "spec.metricPolicy",
        {"rules": [{"name": "r", "action": "Warn", **_NOW_AND_THEN}] * 2},
        "Duplicate value",
        at="spec.metricPolicy.rules[1]",
    ),
]
RESUME_FROM = [
    _rule({"action": "Fail"}, "exactly one of onExitCodes, onReason and onClass must be set"),
    _rule({"action": "Fail", "onClass": ["Hang"], "onReason": ["Lost"]}, "exactly one of onExitCodes, onReason and"),
    _rule({"onClass": ["Hang"]}, "Required value", at=".action"),
    _rule({"action": "Retry", "onClass": ["Hang"]}, "Unsupported value", at=".action"),
    _rule({"action": "Restart", "onClass": ["DeadlineExceeded"]}, "Unsupported value", at=".onClass[0]"),
    _rule({"action": "Restart", "onClass": ["Hang", "Hang"]}, "Duplicate value", at=".onClass[1]"),
    _rule({"action": "Fail", "onReason": []}, "at least 1 items", at=".onReason"),
    _rule({"action": "Fail", "onReason": ["no word"]}, "should match", at=".onReason[0]"),
    _rule({"action": "Fail", "onExitCodes": {"operator": "In", "values": [0]}}, "1", at=".onExitCodes.values[0]"),
    _rule({"action": "Fail", "onExitCodes": {"values": [1]}}, "Required value", at=".onExitCodes.operator"),
    _one("spec.failurePolicy", {"rules": []}, "at least 1 items", at="spec.failurePolicy.rules"),
    _one("spec.resumeFrom", {}, "exactly one of trainJob and checkpoint must be set"),
    _one("spec.resumeFrom", {"trainJob": "a", "checkpoint": "/runs/a/c"}, "exactly one of trainJob and checkpoint"),
    _one("spec.resumeFrom", {"checkpoint": "/c", "best": True}, "needs trainJob", at="spec.resumeFrom.best"),
    _one("spec.resumeFrom", {"trainJob": "A/b"}, "should match", at="spec.resumeFrom.trainJob"),
    _one("spec.resumeFrom", {"checkpoint": "s3://b/a c"}, "should match", at="spec.resumeFrom.checkpoint"),
    _one("spec.resumeFrom", {"checkpoint": "runs/c"}, "should match", at="spec.resumeFrom.checkpoint"),
    _one(
        "spec.resumeFrom", {"checkpoint": "/runs/../etc"}, "must not contain . or ..", at="spec.resumeFrom.checkpoint"
    ),
    _one(
        "spec.resumeFrom",
        {"checkpoint": "s3://key:secret@bucket/c"},
        "must not contain credentials",
        at="spec.resumeFrom.checkpoint",
    ),
    _unknown("spec.resumeFrom.namespace", "other"),
]
BAD_JOBS = [
    *NAMES,
    *TOP,
    *TRAINER,
    *SOURCE,
    *SCALING,
    *RUN,
    *ENV,
    *RUNTIME_ENV,
    *PODS,
    *DATASETS,
    *DRAIN,
    *METRIC_RULES,
    *RESUME_FROM,
]
