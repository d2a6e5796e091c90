"""Keeps the record of the run (`contract.run_record`) in the job's own folder while this head trains, and at its end.

A record is read before it is written, since the attempts of earlier heads are in it. That is also its fence: once it
has an attempt that began later, this head writes it no more. A slow write of an earlier head may land after the first
one of its successor; the successor's next write then brings both together again.
"""

from __future__ import annotations

import json
import os
import platform
import threading
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import FrozenSet, Mapping, Optional, Tuple

from railhead._version import __version__
from railhead.contract import environment
from railhead.contract.digest import digest_files
from railhead.contract.job_input import DatasetInput, JobInput
from railhead.contract.json_values import load_value
from railhead.contract.report import Report
from railhead.contract.run_folder import RECORD
from railhead.contract.run_record import (
    RecordedAttempt,
    RecordedEnvironment,
    RecordedSpec,
    RunRecord,
    parse_record,
)
from railhead.contract.times import now_text
from railhead.driver.archive.archive_upload import open_folder
from railhead.driver.container.packages import find_version
from railhead.driver.container.pod_input import Pod
from railhead.driver.head.publisher import Publisher
from railhead.driver.mailbox.mailbox import Mailbox
from railhead.driver.messages.attempt_errors import Fenced
from railhead.driver.messages.redaction import redact
from railhead.driver.storage.history_records import hide
from railhead.driver.storage.history_segments import Uploader

LOOK_SECONDS = 1.0  # for the begin of training
END_SECONDS = 2.0  # that the end of the attempt waits for the storage
PACKAGES = ("ray", "torch", "tensorflow", "jax", "xgboost", "lightgbm", "lightning", "transformers", "accelerate")
# Of the user's code: reading more would take longer than it is worth.
MOST_CODE_FILES = 2000
MOST_CODE_BYTES = 64 << 20

Key = Tuple[str, int, str]


class RunRecorder:
    """Keeps the record for one head."""

    def __init__(self, pod: Pod, job: JobInput, publisher: Publisher, mailbox: Mailbox) -> None:
        self._pod = pod
        self._job = job
        self._publisher = publisher
        self._mailbox = mailbox
        self._started = now_text()
        self._environment: Optional[RecordedEnvironment] = None
        self._earlier: Optional[FrozenSet[Key]] = None
        self._lock = threading.Lock()
        self._uploader: Optional[Uploader] = None

    def watch(self) -> None:
        """Begins the record when training begins. An attempt that never trains leaves nothing in the storage."""
        while not self._begin():
            time.sleep(LOOK_SECONDS)

    def finish(self) -> None:
        """Writes how the attempt has ended, which the report has. Waits for the storage for two seconds at most."""
        if self._begin() and self._uploader is not None:
            self._uploader.end(END_SECONDS)

    def _begin(self) -> bool:
        """Tells whether the record has begun."""
        with self._lock:
            if self._uploader is None and self._mailbox.read_newest_fit().progress.has_run:
                self._uploader = Uploader(self._write, begins_at_once=True)
            return self._uploader is not None

    def _write(self) -> None:
        """Raises Fenced once a later head has the run, OtherVersion, and what the storage raises."""
        report = self._publisher.build_complete_report()
        folder = open_folder(self._job.storage_path, self._job.run_name)
        if self._environment is None:
            self._environment = describe_environment(self._job, os.environ)
        attempt = describe_attempt(report, pod=self._pod.uid, started=self._started)
        record = build_record(self._job, report, self._environment)
        stored = parse_record(folder.read(RECORD) or b"")
        self._earlier = check_order(stored, attempt, self._earlier)
        folder.write(RECORD, add_attempt(record, attempt, stored).to_json())


def check_order(stored: Optional[RunRecord], own: RecordedAttempt, earlier: Optional[FrozenSet[Key]]) -> FrozenSet[Key]:
    """Returns the attempts that began before this one: those that it found at its first write.

    Raises Fenced if the stored record has one that began later.
    """
    others = frozenset(each.key for each in stored.attempts if each.key != own.key) if stored else frozenset()
    # Two heads of one attempt have no order in time; by their pods both come to the same one, as their claims do.
    later = [key for key in others if key[0] == own.job and key[1:] > (own.number, own.pod)]
    if earlier is None:
        earlier = others
    if later or not others <= earlier:
        raise Fenced("a later head keeps the run's record")
    return earlier


def add_attempt(record: RunRecord, own: RecordedAttempt, stored: Optional[RunRecord]) -> RunRecord:
    """Returns the record with this attempt after the others, and with the checkpoints that only they have committed."""
    if stored is None:
        return replace(record, attempts=(own,))
    others = [each for each in stored.attempts if each.key != own.key]
    best = record.best_checkpoint
    if best is None:
        best = stored.best_checkpoint
    return replace(
        record,
        tracker_url=record.tracker_url or stored.tracker_url,
        attempts=(*others, own),
        checkpoint=record.checkpoint or stored.checkpoint,
        best_checkpoint=best,
        metrics=record.metrics or stored.metrics,
    )


def build_record(job: JobInput, report: Report, found: RecordedEnvironment) -> RunRecord:
    """Returns the record without attempts, and without credentials."""
    record = RunRecord(
        namespace=job.namespace,
        name=job.name,
        uid=job.uid,
        run_uri=report.run_uri,
        tracker_url=report.tracker_url,
        spec=describe_spec(job),
        environment=found,
        checkpoint=report.checkpoint,
        best_checkpoint=report.best_checkpoint,
        metrics=report.metrics,
        steps=report.steps,
    )
    # By way of JSON, in which tuples are lists, whose texts are hidden.
    hidden: RunRecord = load_value(RunRecord, hide(json.loads(json.dumps(asdict(record)))))
    return hidden


def describe_attempt(report: Report, *, pod: str, started: str) -> RecordedAttempt:
    """Returns the attempt of this report; `pod`: uid of the head pod."""
    attempt = RecordedAttempt(
        job=report.uid,
        number=report.attempt,
        pod=pod,
        started=started,
        seen=report.time,
        state=report.state,
        workers=report.workers,
        reports=report.reports,
    )
    if report.restart is not None:
        attempt = replace(attempt, restarts=report.restart.number)
    if report.spent is not None:
        attempt = replace(attempt, spent=report.spent)
    end = report.outcome
    if end is None:
        return attempt
    return replace(
        attempt, outcome=end.outcome, reason=end.reason, message=redact(end.message), suspect_pod=end.suspect_pod
    )


def describe_spec(job: JobInput) -> RecordedSpec:
    """Returns what the job's pods were to run."""
    scaling = job.scaling
    least = None
    if scaling.elastic is not None:
        least = scaling.elastic.min_workers
    return RecordedSpec(
        train_func=job.train_func,
        build=job.build,
        entrypoint=tuple(job.entrypoint),
        framework=job.framework,
        train_loop_config=job.train_loop_config,
        num_workers=scaling.num_workers,
        min_workers=least,
        resources_per_worker=scaling.resources_per_worker,
        accelerator_type=scaling.accelerator_type or "",
        datasets={name: _describe_dataset(dataset) for name, dataset in job.datasets.items()},
        score_attribute=job.checkpoint.score_attribute or "",
        score_order=job.checkpoint.score_order or "",
    )


def _describe_dataset(dataset: DatasetInput) -> str:
    return dataset.uri or dataset.function or "a path"


def describe_environment(job: JobInput, variables: Mapping[str, str]) -> RecordedEnvironment:
    """Returns what the code of the job runs with, by the metadata of packages, of which none is imported."""
    found = {name: find_version(name) for name in PACKAGES}
    versions = {"railhead": __version__, "python": platform.python_version()}
    versions.update((name, version) for name, version in found.items() if version)
    code = ""
    source = variables.get(environment.SOURCE)
    if source:
        code = digest_folder(Path(source))
    record = RecordedEnvironment(variables.get(environment.IMAGE, ""), versions, code=code)
    if job.git is None:
        return record
    return replace(record, repository=job.git.repository, revision=job.git.revision)


def digest_folder(folder: Path) -> str:
    """Returns the digest of the files below the folder, by name; empty if they are many or large.

    Left out are hidden files and folders, such as those of git and of a mounted ConfigMap, and what Python compiles.
    """
    contents: dict[str, bytes] = {}
    left = MOST_CODE_BYTES
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".") and name != "__pycache__"]
        for name in names:
            file = Path(place, name)
            if name.startswith(".") or not file.is_file():
                continue
            left -= file.stat().st_size
            if left < 0 or len(contents) >= MOST_CODE_FILES:
                return ""
            contents[file.relative_to(folder).as_posix()] = file.read_bytes()
    return digest_files(contents)
