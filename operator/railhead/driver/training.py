"""From a starting Ray head to the end of fit(): one attempt's training, as seen by the driver.

Runs in a thread of its own, so that the main thread can answer signals at once. While
Ray's head starts, this looks at the user's module and the storage and imports Ray.
"""

from __future__ import annotations

import os
import threading
import time
from dataclasses import replace
from functools import partial
from typing import Any, Callable, Mapping, Optional

from railhead.contract import environment as e
from railhead.contract.job_input import JobInput
from railhead.driver.describe import describe_exception
from railhead.driver.ending import Ending
from railhead.driver.errors import Fenced, JobRefused
from railhead.driver.node.accelerators import find_wrong_accelerator
from railhead.driver.node.hosts import is_listening
from railhead.driver.pod import RUN_URI, Pod, find_storage_path
from railhead.driver.reporting.publisher import Publisher
from railhead.driver.reporting.spool import Spool
from railhead.driver.script.run import ScriptHost, find_script_problem, run_script
from railhead.driver.storage.ask import StorageUnreachable
from railhead.driver.storage.claim import claim_run
from railhead.driver.storage.prepare import prepare_storage
from railhead.driver.storage.words import redact
from railhead.driver.train_controller.callback_path import CALLBACKS
from railhead.driver.train_controller.elastic import Bounds
from railhead.driver.train_controller.failure import miss_success
from railhead.driver.trainers.frameworks import FrameworkMissing, explain_missing
from railhead.driver.trainers.offer import Offer
from railhead.driver.user_code.check import find_missing_folder, find_problem
from railhead.driver.user_code.path import find_user_folders, find_working_folder
from railhead.driver.user_code.runtime_env import brings_modules, prepare_runtime_env, upload_local_folders

Say = Callable[[str], None]
GiveUp = Callable[[Ending], None]
NODES_INTERVAL_JOINING, NODES_INTERVAL = 0.5, 5.0  # seconds


def run_training(
    pod: Pod, job: JobInput, *, publisher: Publisher, spool: Spool, say: Say, give_up: GiveUp, host: ScriptHost
) -> Ending:
    """Never raises. `give_up` is told of an ending that fit() would not find by itself."""
    try:
        refused = _prepare(pod, job, publisher=publisher, say=say)
        ending = refused or _train(pod, job, publisher=publisher, spool=spool, say=say, give_up=give_up, host=host)
    except JobRefused as error:
        ending = Ending.configuration(error.reason, error.message)
    except StorageUnreachable as error:
        ending = Ending.infrastructure("StorageUnreachable", str(error))
    except Fenced as error:
        ending = Ending.fenced(str(error))
    except BaseException as error:  # the user's code runs in here too: a thread that ended would never be noticed
        ending = Ending.infrastructure("DriverFailed", describe_exception(error))
    return replace(ending, message=redact(ending.message, os.environ))


def _train(
    pod: Pod, job: JobInput, *, publisher: Publisher, spool: Spool, say: Say, give_up: GiveUp, host: ScriptHost
) -> Ending:
    """By the way that the user chose."""
    watch = partial(_start_watching, pod, job, publisher, say, give_up)
    if job.entrypoint:
        return _run_script(pod, job, spool=spool, say=say, host=host, watch=watch)
    return _run_trainer(pod, job, spool=spool, say=say, watch=watch)


def find_code_problem(job: JobInput, environment: Mapping[str, str]) -> str:
    """Why the user's code cannot be used, as far as that is known before Ray is up; with the field's name."""
    if job.entrypoint:
        return find_script_problem(job, environment)
    used = {"trainer.build": job.build, "trainer.trainFunc": job.train_func}
    used["trainer.validationFunction"] = job.validation_function
    is_in_source = bool(job.build) or not brings_modules(job.runtime_env)
    source = environment.get(e.SOURCE) if is_in_source else None
    for field, function in used.items():
        problem = find_problem(function, source=source) if function else ""
        if problem:
            return f"{field} {function}: {problem}"
    return ""


def _prepare(pod: Pod, job: JobInput, *, publisher: Publisher, say: Say) -> Optional[Ending]:
    """The code and the storage, before Ray is there: an ending when one of them cannot be used."""
    problem = find_missing_folder(os.environ.get(e.SOURCE))
    if problem:
        return Ending.configuration("SourceNotFound", problem)
    problem = explain_missing(job.framework) if job.train_func else ""
    if problem:
        return Ending.configuration("FrameworkMissing", problem)
    problem = find_code_problem(job, os.environ)
    if problem:
        return Ending.configuration("EntrypointNotUsable", problem)
    storage_path = find_storage_path(pod, job)
    storage = prepare_storage(storage_path, run_name=job.run_name)
    resumed = {"uri": storage.latest_checkpoint} if storage.latest_checkpoint else None
    publisher.update(run_uri=storage.run_uri, resumed_from=resumed)
    if resumed:
        say(f"the run goes on from {storage.latest_checkpoint}")
    os.environ[RUN_URI] = storage.run_uri
    return None


def _run_trainer(pod: Pod, job: JobInput, *, spool: Spool, say: Say, watch: Callable[[], None]) -> Ending:
    """trainFunc and build: fit() is called in this process."""
    storage_path = find_storage_path(pod, job)
    problem = _prepare_ray_train(pod, job)
    if problem:
        return Ending.configuration("RayTrainNotUsable", problem)
    folders = find_user_folders()
    job = replace(job, runtime_env=prepare_runtime_env(job.runtime_env, folders=folders, bundle=pod.bundle))
    needs_ray = bool(job.build or job.datasets)  # all else that is wrong is said before Ray is there
    trainer = None if needs_ray else _make_trainer(pod, job, storage_path, {})
    if isinstance(trainer, Ending):
        return trainer
    say("Ray Train is imported")
    connect(pod, say=say)
    upload_local_folders(job.runtime_env, scratch=str(pod.temp))  # the very object that the trainer holds
    watch()
    if needs_ray:
        os.chdir(find_working_folder(os.environ))  # for files that the user's code opens; Ray noted the one before
        datasets = _make_datasets(job)
        trainer = datasets if isinstance(datasets, Ending) else _make_trainer(pod, job, storage_path, datasets)
    return trainer if isinstance(trainer, Ending) else _fit(trainer, spool)


def _run_script(
    pod: Pod, job: JobInput, *, spool: Spool, say: Say, host: ScriptHost, watch: Callable[[], None]
) -> Ending:
    """entrypoint: fit() is called in a process of its own; ours joins Ray only to count its nodes."""
    wait_for_head(pod)

    def join_and_watch() -> None:
        try:
            connect(pod, say=say, shows_ranks=False)
        except Exception as error:  # when Ray is in trouble the script finds out too
            say(f"the worker pods cannot be counted: {type(error).__name__}: {error}")
        else:
            watch()

    threading.Thread(target=join_and_watch, daemon=True).start()
    offer = Offer.from_job(job, storage_path=find_storage_path(pod, job))
    return run_script(job, pod, offer=offer, spool=spool, host=host, say=say)


def _start_watching(pod: Pod, job: JobInput, publisher: Publisher, say: Say, give_up: GiveUp) -> None:
    threading.Thread(target=watch_nodes, args=(pod, job, publisher, say, give_up), daemon=True).start()


def _prepare_ray_train(pod: Pod, job: JobInput) -> str:
    """Puts our callback and our policies into Ray Train; why that cannot be, or an empty string."""
    try:
        from railhead.driver.train_controller import failure_policy, scaling_policy
    except ImportError as error:
        return f"spec.image: Ray Train cannot be imported: {error}"
    os.environ["RAY_TRAIN_CALLBACKS"] = ",".join(
        path for path in (*CALLBACKS, os.environ.get("RAY_TRAIN_CALLBACKS")) if path
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


def _make_trainer(pod: Pod, job: JobInput, storage_path: str, datasets: dict[str, Any]) -> Any:
    """Ready for fit(), with the run claimed for this attempt; or the Ending."""
    trainer = _call_trainer(job, storage_path, datasets)
    if not isinstance(trainer, Ending) and not trainer.running_in_local_mode:
        claim_run(trainer.run_config, pod=pod, job=job)
    return trainer


def _call_trainer(job: JobInput, storage_path: str, datasets: dict[str, Any]) -> Any:
    """The trainer of trainFunc or build, or the Ending when the image, the spec or the user's code allows none."""
    if job.build:
        return _call_build(job, storage_path, datasets)
    from railhead.driver.errors import CallbackRefused
    from railhead.driver.trainers.trainer import build_trainer

    try:
        return build_trainer(job, storage_path=storage_path, datasets=datasets)
    except CallbackRefused as error:
        return Ending.configuration("CallbackRefused", str(error))
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


def wait_for_head(pod: Pod) -> None:
    """Until Ray's head listens. The main thread sees a head that failed."""
    while not is_listening(pod.ip, pod.head_port, timeout=1):
        time.sleep(0.05)


def connect(pod: Pod, *, say: Say, shows_ranks: bool = True) -> None:
    """Joins Ray as a driver, as soon as its head is there."""
    import ray

    wait_for_head(pod)
    # Ray puts the driver's working directory first on the workers' sys.path, where a user's
    # queue.py would break them; the stub adds the real one at the end.
    os.chdir(pod.temp)
    ray.init(
        address=f"{pod.ip}:{pod.head_port}",
        _node_ip_address=pod.ip,
        log_to_driver=shows_ranks,
        namespace="railhead",
    )
    say("the driver has joined Ray")


def _fit(trainer: Any, spool: Spool) -> Ending:
    try:
        trainer.fit()
    except Exception as error:
        from railhead.driver.train_controller.failure_policy import build_verdict

        return Ending.from_verdict(spool.read_verdict() or build_verdict(error))
    # Without workers the function has run in this process, and has returned.
    has_succeeded = trainer.running_in_local_mode or spool.have_all_returned()
    return Ending.succeeded() if has_succeeded else Ending.from_verdict(miss_success())


def watch_nodes(pod: Pod, job: JobInput, publisher: Publisher, say: Say, give_up: GiveUp) -> None:
    """Tells how many worker pods are part of Ray, for as long as the driver lives, and sees one that cannot train."""
    import ray
    from railhead.driver.train_controller.lost_nodes import find_lost_nodes

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
        if count > wanted:  # Ray believes in a lost one for some ten seconds, beside its replacement
            count -= len(find_lost_nodes({node["NodeID"] for node in nodes}))
        if count != joined:
            joined = count
            say(f"{count} of {wanted} worker pods have joined")
            publisher.update(joined=count)
        time.sleep(NODES_INTERVAL if count >= wanted else NODES_INTERVAL_JOINING)


def find_joined(nodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Ray's live nodes without the head."""
    return [n for n in nodes if n["Alive"] and "node:__internal_head__" not in n["Resources"]]
