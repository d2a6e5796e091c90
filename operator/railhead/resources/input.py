"""The job's input ConfigMap: the driver's input, the report endpoint's CA, inline code."""

from __future__ import annotations

from typing import Any

from railhead.api import names
from railhead.api.backend import DEFAULT_FRAMEWORK
from railhead.api.datasets import Dataset
from railhead.api.scaling import RESIZE_INTERVAL_SECONDS, START_WAIT_SECONDS, Scaling
from railhead.api.spec import TrainJobSpec
from railhead.contract.digest import digest_files
from railhead.contract.job_input import CA_KEY, FILE, SOURCE_PREFIX, JobInput
from railhead.resources.owner import JobRef, build_metadata
from railhead.resources.placement import find_ray_labels
from railhead.resources.settings import OperatorSettings
from railhead.resources.sizes import compute_sizes


def build_job_input(job: JobRef, spec: TrainJobSpec) -> JobInput:
    """The spec as the driver needs it: with Ray's names and numbers."""
    sizes = compute_sizes(spec)
    git = spec.source.git if spec.source else None
    run, scaling, backend, inline = spec.run, spec.scaling, spec.trainer.backend, _get_inline(spec)
    return JobInput(
        namespace=job.namespace,
        name=job.name,
        uid=job.uid,
        run_name=names.run_name(job.name, job.uid, run.name),
        framework=(spec.trainer.framework or DEFAULT_FRAMEWORK) if spec.trainer.train_func else "",
        train_func=spec.trainer.train_func or "",
        validation_function=spec.trainer.validation_function or "",
        build=spec.trainer.build or "",
        entrypoint=spec.trainer.entrypoint or [],
        train_loop_config=spec.trainer.train_loop_config or {},
        backend=backend.model_dump(by_alias=True, exclude_none=True) if backend else {},
        scaling={
            **_count_workers(scaling),
            "useGPU": scaling.use_gpu,
            "resourcesPerWorker": dict(sizes.per_worker),
            "placementStrategy": scaling.placement_strategy,
            "acceleratorType": scaling.accelerator_type,
            "rayLabelSelector": find_ray_labels(scaling.ray_label_selector),
        },
        worker_pods=max(1, scaling.most_workers // scaling.workers_per_pod),
        checkpoint=run.checkpoint.model_dump(by_alias=True, exclude_none=True) if run.checkpoint else {},
        callbacks=run.callbacks or [],
        max_failures=run.failure.max_failures if run.failure else None,
        collective_timeout_seconds=run.collective_timeout_seconds,
        datasets={name: _describe_dataset(dataset) for name, dataset in (spec.datasets or {}).items()},
        log_level=run.log_level,
        forward_logs=spec.forward_logs,
        drain_seconds=spec.drain_seconds,
        is_drain_required=spec.worker.drain_seconds is not None,
        storage_path=None if run.storage_path.startswith("/") else run.storage_path,
        runtime_env=spec.runtime_env.model_dump(by_alias=True, exclude_none=True) if spec.runtime_env else {},
        git=git.model_dump(by_alias=True, exclude_none=True) if git else {},
        source_digest=digest_files({n: text.encode() for n, text in inline.items()}) if inline else "",
        ray_node={"head": sizes.head.ray.to_dict(), "worker": sizes.worker.ray.to_dict()},
    )


def _count_workers(scaling: Scaling) -> dict[str, int]:
    """A fixed number, or the bounds of an elastic job. Not desiredWorkers, which may change: the input may not."""
    if not scaling.is_elastic:
        return {"numWorkers": scaling.most_workers}
    wait, interval = scaling.start_wait_seconds, scaling.elastic_resize_monitor_interval_seconds
    return {
        "minWorkers": scaling.least_workers,
        "maxWorkers": scaling.most_workers,
        "workersPerPod": scaling.workers_per_pod,
        "startWaitSeconds": START_WAIT_SECONDS if wait is None else wait,
        "resizeIntervalSeconds": RESIZE_INTERVAL_SECONDS if interval is None else interval,
    }


def _describe_dataset(dataset: Dataset) -> dict[str, Any]:
    values = dataset.model_dump(by_alias=True, exclude_none=True)
    return {key: value for key, value in values.items() if key != "uri" or not _is_path(value)}


def build_dataset_paths(spec: TrainJobSpec) -> dict[str, str]:
    """The datasets whose uri is a path; they go into the environment, where a local node rewrites paths."""
    return {n: d.uri for n, d in (spec.datasets or {}).items() if d.uri is not None and _is_path(d.uri)}


def _is_path(uri: str) -> bool:
    return uri.startswith("/")


def build_input(job: JobRef, spec: TrainJobSpec, settings: OperatorSettings) -> dict[str, Any]:
    """The ConfigMap; immutable, so that a running job's input never changes."""
    files = _build_files(job, spec, settings)
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": build_metadata(job, _name(job, files)),
        "immutable": True,
        "data": {
            **files,
            **{SOURCE_PREFIX + name: text for name, text in _get_inline(spec).items()},
        },
    }


def find_input_name(job: JobRef, spec: TrainJobSpec, settings: OperatorSettings) -> str:
    """With the digest of the files for the driver, one of which has the digest of the inline code."""
    return _name(job, _build_files(job, spec, settings))


def _name(job: JobRef, files: dict[str, str]) -> str:
    return names.input_name(job.name, job.uid, digest_files({name: text.encode() for name, text in files.items()}))


def _build_files(job: JobRef, spec: TrainJobSpec, settings: OperatorSettings) -> dict[str, str]:
    return {FILE: build_job_input(job, spec).to_json(), CA_KEY: settings.report_ca}


def _get_inline(spec: TrainJobSpec) -> dict[str, str]:
    return (spec.source.inline if spec.source else None) or {}
