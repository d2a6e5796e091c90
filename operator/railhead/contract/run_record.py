"""The record of a run: what its driver keeps in the run's folder for a reader who has no TrainJob any more.

It is one JSON object in `run_folder.RECORD`, with the names of the fields below. The driver writes it when training
begins, each minute, and when the attempt ends; `seen` of an attempt without an outcome is its last sign of life.

A record has the version of this format. A reader of this version understands records of this version only, and a driver
leaves any other record alone. A new field needs no new version: a reader drops the fields that it does not know, and
gives those that are missing their defaults. Anybody who may write to the storage may have written a record.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Dict, Iterator, Optional, Tuple

from railhead.contract.json_values import load_checked
from railhead.contract.outcome import shorten_middle
from railhead.contract.report import CommittedCheckpoint, Steps
from railhead.contract.spent import Spent

VERSION = 1
LIMIT_BYTES = 65536
MOST_ATTEMPTS = 50  # the newest ones
MESSAGE_CHARS = 1000
_HALF_PAIR = b"\\u"  # how JSON may have half a surrogate pair


@dataclass(frozen=True)
class RecordedAttempt:
    """An attempt that has trained.

    Attributes:
        job: uid of the TrainJob; several may continue one run, each from attempt 1.
        number: from 1.
        pod: uid of its head pod.
        started: when its driver started (RFC 3339, UTC).
        seen: when this was written.
        state: as in `contract.report.Report`.
        outcome, reason, message, suspect_pod: as in `contract.outcome.Outcome`; empty while the attempt lasts, and for
            good if its head died.
        workers: of the current or last worker group.
        reports, restarts: how many there were.
        spent: what its time was spent on.
    """

    job: str
    number: int
    pod: str
    started: str
    seen: str
    state: str = ""
    outcome: str = ""
    reason: str = ""
    message: str = ""
    suspect_pod: str = ""
    workers: int = 0
    reports: int = 0
    restarts: int = 0
    spent: Spent = field(default_factory=Spent)

    @property
    def key(self) -> Tuple[str, int, str]:
        return self.job, self.number, self.pod


@dataclass(frozen=True)
class RecordedSpec:
    """What the newest attempt was to run, by the names of the TrainJob's spec.

    Attributes:
        train_func, build, entrypoint: of trainer; one of them is set.
        train_loop_config: None = it was too large.
        num_workers: in an elastic job the maximum.
        min_workers: None = the job is not elastic.
        resources_per_worker: by Ray's names.
        datasets: uri or function of each.
        score_attribute, score_order: of run.checkpoint.
    """

    train_func: str = ""
    build: str = ""
    entrypoint: Tuple[str, ...] = ()
    framework: str = ""
    train_loop_config: Optional[Dict[str, Any]] = None
    num_workers: int = 0
    min_workers: Optional[int] = None
    resources_per_worker: Dict[str, float] = field(default_factory=dict)
    accelerator_type: str = ""
    datasets: Dict[str, str] = field(default_factory=dict)
    score_attribute: str = ""
    score_order: str = ""


@dataclass(frozen=True)
class RecordedEnvironment:
    """What the newest attempt ran with.

    Attributes:
        image: spec.image.
        versions: of Python, Railhead, Ray and the frameworks in the image, by package.
        repository, revision: of source.git.
        code: digest of the files of spec.source, however they came; empty if the code is in the image, or too large.
    """

    image: str = ""
    versions: Dict[str, str] = field(default_factory=dict)
    repository: str = ""
    revision: str = ""
    code: str = ""


@dataclass(frozen=True)
class RunRecord:
    """What a run was, and how far it came.

    Attributes:
        namespace, name, uid: of the TrainJob that has continued it last.
        run_uri: where the newest fit() keeps its checkpoints.
        attempts: in the order in which they began; at most `MOST_ATTEMPTS`.
        checkpoint, best_checkpoint: as in `contract.report.Report`, over all attempts.
        metrics: rank 0's last ones, as text.
        steps: how far training was.
        tracker_url: where a tracker shows the run, or empty.
    """

    namespace: str
    name: str
    uid: str
    run_uri: str = ""
    spec: RecordedSpec = field(default_factory=RecordedSpec)
    environment: RecordedEnvironment = field(default_factory=RecordedEnvironment)
    attempts: Tuple[RecordedAttempt, ...] = ()
    checkpoint: Optional[CommittedCheckpoint] = None
    best_checkpoint: Optional[CommittedCheckpoint] = None
    metrics: Dict[str, str] = field(default_factory=dict)
    steps: Steps = field(default_factory=Steps)
    tracker_url: str = ""

    def to_json(self) -> bytes:
        """Writes at most `LIMIT_BYTES`; drops the least important parts first."""
        data = b""
        for shorter in self._shorter_versions():
            text = json.dumps({"version": VERSION, **asdict(shorter)}, ensure_ascii=False)
            data = text.encode(errors="replace")
            if len(data) <= LIMIT_BYTES:
                return data
        return data

    def _shorter_versions(self) -> Iterator[RunRecord]:
        """Yields ever shorter records: without the training function's configuration, metrics, older attempts, and at
        last with nothing but the job and its newest attempt."""
        cut = replace(self, attempts=tuple(map(_shorten, self.attempts[-MOST_ATTEMPTS:])))
        yield cut
        cut = replace(cut, spec=replace(cut.spec, train_loop_config=None))
        yield cut
        cut = replace(cut, spec=RecordedSpec(score_attribute=cut.spec.score_attribute))
        cut = replace(cut, metrics={}, checkpoint=_without_metrics(cut.checkpoint))
        cut = replace(cut, best_checkpoint=_without_metrics(cut.best_checkpoint))
        yield cut
        while len(cut.attempts) > 1:
            cut = replace(cut, attempts=cut.attempts[(len(cut.attempts) + 1) // 2 :])
            yield cut
        yield RunRecord(self.namespace, self.name, self.uid, attempts=cut.attempts)


class OtherVersion(Exception):
    """The record is of another version of the format, which this one does not understand; the message names it."""


def parse_record(data: bytes) -> Optional[RunRecord]:
    """Returns the record; None for anything else, such as half a record. Raises OtherVersion."""
    if len(data) > LIMIT_BYTES:
        return None
    try:
        values = json.loads(data)
        if _HALF_PAIR in data:  # which is no text elsewhere
            values = json.loads(json.dumps(values, ensure_ascii=False).encode(errors="replace"))
        version = values["version"]
        if type(version) is not int:
            return None
        if version != VERSION:
            raise OtherVersion(f"version {version}, and not {VERSION}")
        record: RunRecord = load_checked(RunRecord, values)
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return record


def _shorten(attempt: RecordedAttempt) -> RecordedAttempt:
    return replace(attempt, message=shorten_middle(attempt.message, MESSAGE_CHARS))


def _without_metrics(checkpoint: Optional[CommittedCheckpoint]) -> Optional[CommittedCheckpoint]:
    if checkpoint is None:
        return None
    return replace(checkpoint, metrics={})
