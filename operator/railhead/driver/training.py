"""From a starting Ray head to the end of fit(): one attempt's training, as seen by the driver.

Runs in a thread of its own, so that the main thread can answer signals at once. While
Ray's head starts, this looks at the user's module and the storage and imports Ray.
"""

from __future__ import annotations

import os
import threading
import time
from dataclasses import replace
from typing import Any, Callable, Optional

from railhead.contract import environment as e
from railhead.contract.job_input import JobInput
from railhead.driver.accelerators import find_wrong_accelerator
from railhead.driver.elastic import Bounds
from railhead.driver.ending import Ending
from railhead.driver.hosts import is_listening
from railhead.driver.pod import RUN_URI, Pod, find_storage_path
from railhead.driver.publisher import Publisher
from railhead.driver.spool import Spool
from railhead.driver.storage import StorageRefused, StorageUnreachable, prepare_storage
from railhead.driver.storage_words import redact
from railhead.driver.trainers.frameworks import FrameworkMissing, explain_missing
from railhead.driver.trainers.trainer import build_trainer
from railhead.driver.user_code.check import find_missing_folder, find_problem
from railhead.driver.user_code.path import find_working_folder

Say = Callable[[str], None]
GiveUp = Callable[[Ending], None]
NODES_INTERVAL_JOINING, NODES_INTERVAL = 0.5, 5.0  # seconds


def run_training(pod: Pod, job: JobInput, *, publisher: Publisher, spool: Spool, say: Say, give_up: GiveUp) -> Ending:
    """Never raises. `give_up` is told of an ending that fit() would not find by itself."""
    try:
        ending = _run(pod, job, publisher=publisher, spool=spool, say=say, give_up=give_up)
    except Exception as error:
        ending = Ending.infrastructure("DriverFailed", f"{type(error).__name__}: {error}")
    return replace(ending, message=redact(ending.message, os.environ))


def _run(pod: Pod, job: JobInput, *, publisher: Publisher, spool: Spool, say: Say, give_up: GiveUp) -> Ending:
    source = os.environ.get(e.SOURCE)
    problem = find_missing_folder(source)
    if problem:
        return Ending.configuration("SourceNotFound", problem)
    problem = explain_missing(job.framework)
    if problem:
        return Ending.configuration("FrameworkMissing", problem)
    field, function = ("trainer.build", job.build) if job.build else ("trainer.trainFunc", job.train_func)
    problem = find_problem(function, source=source)
    if problem:
        return Ending.configuration("EntrypointNotUsable", f"{field} {function}: {problem}")
    storage_path = find_storage_path(pod, job)
    try:
        storage = prepare_storage(storage_path, run_name=job.run_name)
    except StorageRefused as error:
        return Ending.configuration("StorageRefused", str(error))
    except StorageUnreachable as error:
        return Ending.infrastructure("StorageUnreachable", str(error))
    resumed = {"uri": storage.latest_checkpoint} if storage.latest_checkpoint else None
    publisher.update(run_uri=storage.run_uri, resumed_from=resumed)
    if resumed:
        say(f"the run goes on from {storage.latest_checkpoint}")
    os.environ[RUN_URI] = storage.run_uri
    problem = _prepare_ray_train(pod, job)
    if problem:
        return Ending.configuration("RayTrainNotUsable", problem)
    needs_ray = bool(job.build or job.datasets)  # all else that is wrong is said before Ray is there
    trainer = None if needs_ray else _make_trainer(job, storage_path, {})
    if isinstance(trainer, Ending):
        return trainer
    say("Ray Train is imported")
    connect(pod, say=say)
    threading.Thread(target=watch_nodes, args=(pod, job, publisher, say, give_up), daemon=True).start()
    if needs_ray:
        os.chdir(find_working_folder(os.environ))  # for files that the user's code opens; Ray noted the one before
        datasets = _make_datasets(job)
        trainer = datasets if isinstance(datasets, Ending) else _make_trainer(job, storage_path, datasets)
    return trainer if isinstance(trainer, Ending) else _fit(trainer, spool)


def _prepare_ray_train(pod: Pod, job: JobInput) -> str:
    """Puts our callback and our policies into Ray Train; why that cannot be, or an empty string."""
    try:
        from railhead.driver import callback, failure_policy, scaling_policy, shared_storage
    except ImportError as error:
        return f"spec.image: Ray Train cannot be imported: {error}"
    os.environ["RAY_TRAIN_CALLBACKS"] = ",".join(
        path for path in (callback.PATH, shared_storage.PATH, os.environ.get("RAY_TRAIN_CALLBACKS")) if path
    )
    failure_policy.install_failure_policy()
    if job.is_elastic:
        scaling_policy.install_scaling_policy(Bounds.from_job(job.scaling, worker_pods=pod.worker_pods))
    return ""


def _make_datasets(job: JobInput) -> Any:
    """Ray Data's datasets by name, or the Ending."""
    from railhead.driver.trainers.datasets import DatasetOutOfReach, DatasetRefused, build_datasets, read_paths

    try:
        return build_datasets(job, paths=read_paths(os.environ.get(e.DATASETS, ""))) if job.datasets else {}
    except DatasetRefused as error:
        return Ending.configuration("DatasetRefused", str(error))
    except DatasetOutOfReach as error:
        return Ending.infrastructure("DatasetOutOfReach", str(error))


def _make_trainer(job: JobInput, storage_path: str, datasets: dict[str, Any]) -> Any:
    """The trainer of trainFunc or build, or the Ending when the image, the spec or the user's code allows none."""
    if job.build:
        return _call_build(job, storage_path, datasets)
    try:
        return build_trainer(job, storage_path=storage_path, datasets=datasets)
    except FrameworkMissing as error:
        return Ending.configuration("FrameworkMissing", str(error))
    except (ValueError, TypeError) as error:
        return Ending.configuration("ConfigurationRefused", f"Ray Train refuses the configuration: {error}")


def _call_build(job: JobInput, storage_path: str, datasets: dict[str, Any]) -> Any:
    """The trainer that the user's code makes, or the Ending when it makes none."""
    from railhead.driver.trainers.build import build_users_trainer
    from railhead.driver.trainers.users import TrainerRefused

    try:
        return build_users_trainer(job, storage_path=storage_path, datasets=datasets)
    except TrainerRefused as error:
        return Ending.configuration(error.reason, str(error))


def connect(pod: Pod, *, say: Say) -> None:
    """Joins Ray as its driver as soon as the head listens. The main thread sees a head that failed."""
    import ray

    while not is_listening(pod.ip, pod.head_port, timeout=1):
        time.sleep(0.05)
    # Ray puts the driver's working directory first on the workers' sys.path, where a user's
    # queue.py would break them; the stub adds the real one at the end.
    os.chdir(pod.temp)
    ray.init(
        address=f"{pod.ip}:{pod.head_port}",
        _node_ip_address=pod.ip,
        log_to_driver=True,
        namespace="railhead",
    )
    say("the driver has joined Ray")


def _fit(trainer: Any, spool: Spool) -> Ending:
    try:
        trainer.fit()
    except Exception as error:
        from railhead.driver.failure_policy import build_verdict

        return Ending.from_verdict(spool.read_verdict() or build_verdict(error))
    return Ending.succeeded()


def watch_nodes(pod: Pod, job: JobInput, publisher: Publisher, say: Say, give_up: GiveUp) -> None:
    """Tells how many worker pods are part of Ray, for as long as the driver lives, and sees one that cannot train."""
    import ray

    wanted = pod.worker_pods or job.worker_pods
    joined: Optional[int] = None
    while True:
        try:
            nodes = find_joined(ray.nodes())
        except Exception:  # Ray is ending; the main thread knows why
            return
        problem = find_wrong_accelerator(job, nodes)
        if problem:
            give_up(Ending.configuration("AcceleratorNotThere", problem))
            return
        count = len(nodes)
        if count != joined:
            joined = count
            say(f"{count} of {wanted} worker pods have joined")
            publisher.update(joined=count)
        time.sleep(NODES_INTERVAL if joined == wanted else NODES_INTERVAL_JOINING)


def find_joined(nodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Ray's live nodes without the head."""
    return [n for n in nodes if n["Alive"] and "node:__internal_head__" not in n["Resources"]]
