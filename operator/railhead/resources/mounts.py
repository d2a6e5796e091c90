"""What all pods of an attempt mount, by name: the input, Ray's token, the bundle and the copy of the user's code.

The names of the first three end with the digest of the content, and a pod runs with no other content: an attacker who
may create or replace such an object still cannot choose its content. The content of the copy is not known before it is
made, but its name cannot be guessed.

The operator has no right to read the Secret and need not: the token follows from a key that only the operator has.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass

from railhead.api import names
from railhead.api.log_options import Logs
from railhead.api.run import Dataset, Run
from railhead.api.scaling import RESIZE_INTERVAL_SECONDS, START_WAIT_SECONDS, Scaling
from railhead.api.spec import TrainJobSpec
from railhead.api.trainer import DEFAULT_FRAMEWORK
from railhead.contract.digest import digest, digest_files
from railhead.contract.job_input import (
    CA_KEY,
    FILE,
    SOURCE_PREFIX,
    BackendInput,
    CheckpointInput,
    DatasetInput,
    ElasticInput,
    GitInput,
    JobInput,
    ProgressInput,
    RayNodes,
    ScalingInput,
)
from railhead.contract.log_archive import BY_STORAGE, ArchivePolicy, choose_archive
from railhead.json_object import Object
from railhead.resources.base import JobRef, OperatorSettings, build_immutable, build_metadata
from railhead.resources.placement import compute_ray_labels
from railhead.resources.sizes import compute_sizes

NONCE_CHARS = 12


def derive_text(job: JobRef, settings: OperatorSettings, purpose: str) -> str:
    """Returns 64 hexadecimal digits that only the owner of the key can know.

    They are the same in every replica and process of the operator, so that a create can be sent again. Ray's token has
    the name of the input as its purpose.
    """
    return hmac.new(settings.token_key, f"{job.uid} {purpose}".encode(), "sha256").hexdigest()


def build_secret(job: JobRef, settings: OperatorSettings, *, input_name: str) -> Object:
    """Builds it without an owner: the executor makes the input its owner, with which garbage collection deletes it.

    The operator needs no right to delete Secrets.
    """
    token = derive_text(job, settings, input_name)
    metadata = build_metadata(job, names.secret_name(job.name, job.uid, digest(token.encode())))
    del metadata["ownerReferences"]
    return build_immutable("Secret", metadata, type="Opaque", stringData={names.TOKEN_KEY: token})


def build_job_input(job: JobRef, spec: TrainJobSpec, policy: ArchivePolicy = BY_STORAGE) -> JobInput:
    """Returns the spec as the driver needs it: with Ray's names and numbers."""
    sizes = compute_sizes(spec)
    run = spec.run
    scaling = spec.scaling
    backend = spec.trainer.backend
    logs = spec.logs or Logs()
    progress = run.progress
    return JobInput(
        namespace=job.namespace,
        name=job.name,
        uid=job.uid,
        run_name=job.run_name or names.run_name(job.name, job.uid, run.name),
        is_sharing_run=run.name is not None,
        former_uids=list(job.former_uids),
        framework=_choose_framework(spec),
        train_func=spec.trainer.train_func or "",
        validation_function=spec.trainer.validation_function or "",
        build=spec.trainer.build or "",
        entrypoint=spec.trainer.entrypoint or [],
        train_loop_config=spec.trainer.train_loop_config or {},
        backend=BackendInput(**backend.model_dump()) if backend else BackendInput(),
        scaling=_describe_scaling(scaling, sizes.per_worker),
        worker_pods=max(1, scaling.most_workers // scaling.workers_per_pod),
        checkpoint=_describe_checkpoint(run),
        callbacks=run.callbacks or [],
        progress=ProgressInput(progress.metric, progress.total_metric) if progress else ProgressInput(),
        max_failures=run.failure.max_failures if run.failure else None,
        collective_timeout_seconds=run.collective_timeout_seconds,
        datasets={name: _describe_dataset(dataset) for name, dataset in (spec.datasets or {}).items()},
        log_level=run.log_level,
        forward_logs=spec.forward_logs,
        archive_logs=choose_archive(logs.archive, storage_path=run.storage_path, policy=policy),
        archive_wanted=logs.archive or "",
        archive_per_rank=logs.rank_bytes,
        archive_per_run=logs.run_bytes,
        end_seconds=spec.end_seconds,
        metrics_port=spec.metrics.port if spec.metrics else None,
        has_dashboard=spec.has_dashboard,
        drain_seconds=spec.drain_seconds,
        is_drain_required=spec.worker.drain_seconds is not None,
        storage_path=run.storage_path,
        runtime_env=_describe_runtime_env(spec),
        git=_describe_git(spec),
        source_digest=_digest_inline(spec),
        ray_node=RayNodes(sizes.head.ray, sizes.worker.ray),
    )


def _choose_framework(spec: TrainJobSpec) -> str:
    """Returns the framework of trainer.trainFunc; empty for code that makes its own trainer."""
    if not spec.trainer.train_func:
        return ""
    return spec.trainer.framework or DEFAULT_FRAMEWORK


def _describe_checkpoint(run: Run) -> CheckpointInput:
    if run.checkpoint is None:
        return CheckpointInput()
    return CheckpointInput(**run.checkpoint.model_dump())


def _describe_git(spec: TrainJobSpec) -> GitInput | None:
    """Returns where the code is fetched from; None if it comes from elsewhere."""
    if spec.source is None or spec.source.git is None:
        return None
    git = spec.source.git
    return GitInput(git.repository, git.revision, git.path or "", git.secret_name or "")


def _describe_runtime_env(spec: TrainJobSpec) -> Object:
    """Returns Ray's own form of spec.runtimeEnv, which is the user's; empty without one."""
    if spec.runtime_env is None:
        return {}
    described: Object = spec.runtime_env.model_dump(by_alias=True, exclude_none=True)
    return described


def _digest_inline(spec: TrainJobSpec) -> str:
    """Returns the digest of the inline code, by which a pod knows it; empty without any."""
    inline = _get_inline(spec)
    if not inline:
        return ""
    return digest_files({name: text.encode() for name, text in inline.items()})


def _describe_scaling(scaling: Scaling, per_worker: Mapping[str, float]) -> ScalingInput:
    """Returns what Ray Train's ScalingConfig gets; `per_worker`: Ray's resources of one worker."""
    return ScalingInput(
        num_workers=scaling.most_workers,
        use_gpu=scaling.use_gpu,
        resources_per_worker=dict(per_worker),
        placement_strategy=scaling.placement_strategy,
        accelerator_type=scaling.accelerator_type,
        ray_label_selector=compute_ray_labels(scaling.ray_label_selector),
        elastic=_describe_elastic(scaling),
    )


def _describe_elastic(scaling: Scaling) -> ElasticInput | None:
    """Returns an elastic job's bounds, without desiredWorkers, which may change: the input may not."""
    if not scaling.is_elastic:
        return None
    wait = scaling.start_wait_seconds
    interval = scaling.elastic_resize_monitor_interval_seconds
    if wait is None:
        start_wait_seconds = START_WAIT_SECONDS
    else:
        start_wait_seconds = wait
    if interval is None:
        resize_interval_seconds = RESIZE_INTERVAL_SECONDS
    else:
        resize_interval_seconds = interval
    return ElasticInput(
        min_workers=scaling.least_workers,
        workers_per_pod=scaling.workers_per_pod,
        start_wait_seconds=start_wait_seconds,
        resize_interval_seconds=resize_interval_seconds,
    )


def _describe_dataset(dataset: Dataset) -> DatasetInput:
    return DatasetInput(
        function=dataset.function or "",
        format=dataset.format or "",
        uri=dataset.uri or "",
        split=dataset.split,
    )


def build_input(job: JobRef, spec: TrainJobSpec, settings: OperatorSettings) -> Object:
    """Returns the ConfigMap with the driver's input and the inline code.

    Its name has the digest of the files for the driver, one of which has the digest of the inline code.
    """
    files = {FILE: build_job_input(job, spec, settings.archive_policy).to_json(), CA_KEY: settings.report_ca}
    content = digest_files({name: text.encode() for name, text in files.items()})
    source = {SOURCE_PREFIX + name: text for name, text in _get_inline(spec).items()}
    metadata = build_metadata(job, names.input_name(job.name, job.uid, content))
    return build_immutable("ConfigMap", metadata, data={**files, **source})


def _get_inline(spec: TrainJobSpec) -> dict[str, str]:
    return (spec.source.inline if spec.source else None) or {}


@dataclass(frozen=True)
class Mounts:
    """The names of what all pods of an attempt mount; the status records them with the attempt.

    Attributes:
        driver: ConfigMap with the driver, one for the jobs of a namespace.
        input: ConfigMap with the driver's input and inline code.
        secret: Secret with Ray's token.
        source: the job's copy of the ConfigMap of spec.source.configMap; "" = it has none.
    """

    driver: str
    input: str
    secret: str
    source: str = ""


def name_mounts(job: JobRef, spec: TrainJobSpec, settings: OperatorSettings, *, input_name: str) -> Mounts:
    """Returns those of an attempt that begins now with this input: their names follow from their content."""
    secret: str = build_secret(job, settings, input_name=input_name)["metadata"]["name"]
    source = ""
    if spec.source and spec.source.config_map:
        source = build_source_name(job, settings)
    return Mounts(settings.bundle_name, input_name, secret, source)


def build_source_name(job: JobRef, settings: OperatorSettings) -> str:
    """Returns the name of a copy that is made now: no other client can have created it before."""
    return names.source_name(job.name, job.uid, derive_text(job, settings, "source")[:NONCE_CHARS])


def get_digest(name: str) -> str:
    """Returns the digest of the content, from the object's name."""
    return name.rpartition("-")[2]
