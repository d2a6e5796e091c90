"""What is kept of one TrainJob: parsed while it may act, packed while it rests.

A parsed job takes 30 to 60 KB, a packed one 2 KB, and most jobs of a cluster have finished or are suspended. A pass
over such a job, of which there are few, parses it again, so that planning sees the same values either way.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import NamedTuple

from railhead.api import names
from railhead.api.conditions import SUSPENDED
from railhead.api.parsed_spec import InvalidSpec, JobKey, is_too_large, parse_spec
from railhead.api.run_status import RunStatus
from railhead.api.slow_ranks import list_spells
from railhead.api.spec import TrainJobSpec
from railhead.api.status import JobStatus, parse_status
from railhead.contract.loss_rate import JobLosses
from railhead.controller.observe import Owner
from railhead.json_object import Object, part
from railhead.kube.bodies import decode, encode
from railhead.kube.informer import version_of
from railhead.planning.observed import Announced
from railhead.resources.queues.kueue import MAX_SECONDS, PRIORITY_CLASS, QUEUE_NAME

FASTEST = 1
VELERO_RESTORE = "velero.io/restore-name"  # label that Velero gives whatever it makes again


class RunKey(NamedTuple):
    """A run, as jobs of a namespace name it."""

    namespace: str
    storage_path: str
    claim: str
    name: str


class Content(NamedTuple):
    """A job's spec, or why it is invalid, and its status."""

    spec: TrainJobSpec | InvalidSpec
    status: JobStatus


@dataclass(frozen=True, slots=True)
class JobRecord:
    """One TrainJob as last observed; of its status, the fields that are needed of all jobs.

    Attributes:
        leaves_pods: it is deleted with --cascade=orphan, so that its pods are to stay.
        announced: what counts as announced when this record is the first one.
        avoided_nodes: how many.
        queue_label, priority_label, seconds_label: values of Kueue's labels.
        queued_since: since when it has waited for its queue; None unless it does.
        created: when, as the API server writes it.
        restored_by: the restore of a backup tool that has made the object, or "".
        has_run: it has begun in its run, under this uid.
        run_key: of its run, while it has not finished; None if another controller manages the job.
        losses: what it adds to those of its namespace's jobs.
        kept: the spec and status; of a job that is finished or suspended, as compressed JSON.
    """

    key: JobKey
    uid: str
    generation: int
    version: int
    is_deleting: bool
    leaves_pods: bool
    phase: str
    attempt: int
    driver: str
    is_finished: bool
    announced: Announced
    avoided_nodes: int
    queue_label: str
    priority_label: str
    seconds_label: str
    queued_since: str | None
    created: str
    restored_by: str
    has_run: bool
    run_key: RunKey | None
    losses: JobLosses
    kept: Content | bytes

    @property
    def owner(self) -> Owner:
        """Returns the run as its pods name it."""
        return Owner(self.key.namespace, self.uid)

    def read(self) -> Content:
        """Parses it if it is packed: keep the answer during a pass."""
        if isinstance(self.kept, Content):
            return self.kept
        spec, status = decode(zlib.decompress(self.kept))
        return Content(_parse(spec, self.key.name), parse_status(status))


def read_key(raw: Object) -> JobKey:
    metadata = raw.get("metadata") or {}
    return JobKey(str(metadata.get("namespace")), str(metadata.get("name")))


def record_job(raw: Object, old: JobRecord | None) -> JobRecord:
    """Returns the record of a job. `old` is the last one under this key: a parsed spec of the same generation is
    used again."""
    metadata = raw.get("metadata") or {}
    key = read_key(raw)
    uid = str(metadata.get("uid"))
    generation = int(metadata.get("generation") or 0)
    status = parse_status(raw.get("status"))
    kept: Content | bytes
    spec = raw.get("spec")
    if (status.is_finished or status.is_resting) and not is_too_large(spec):
        # The fastest level, since every event of a job at rest pays for it.
        kept = zlib.compress(encode([spec, raw.get("status")]), FASTEST)
    elif old is not None and isinstance(old.kept, Content) and (old.uid, old.generation) == (uid, generation):
        # The generation changes with each change of the spec, so the parsed one is still right; most events change the
        # status.
        kept = Content(old.kept.spec, status)
    else:
        kept = Content(_parse(spec, key.name), status)
    is_deleting = bool(metadata.get("deletionTimestamp"))
    labels = metadata.get("labels") or {}
    return JobRecord(
        key=key,
        uid=uid,
        generation=generation,
        version=version_of(raw),
        is_deleting=is_deleting,
        # `kubectl delete --cascade=orphan` sets this finalizer, and garbage collection removes it again.
        leaves_pods="orphan" in (metadata.get("finalizers") or ()),
        phase=status.phase,
        attempt=status.attempt,
        driver=status.driver,
        is_finished=status.is_finished,
        announced=Announced(status.newest_index, slow_ranks=list_spells(status.progress.slow_ranks)),
        avoided_nodes=len(status.avoided_nodes or ()),
        queue_label=str(labels.get(QUEUE_NAME) or ""),
        priority_label=str(labels.get(PRIORITY_CLASS) or ""),
        seconds_label=str(labels.get(MAX_SECONDS) or ""),
        queued_since=_find_queued_since(status),
        created=str(metadata.get("creationTimestamp") or ""),
        restored_by=str(labels.get(VELERO_RESTORE) or ""),
        has_run=status.attempt > 0 and (status.run is None or status.run.uid == uid),
        run_key=None if status.is_finished else _find_run_key(key, uid, raw, status),
        losses=status.losses,
        kept=kept,
    )


def _find_run_key(key: JobKey, uid: str, raw: Object, status: JobStatus) -> RunKey | None:
    """Identifies a run within a namespace only: the same path or URI may be another storage elsewhere."""
    spec = part(raw, "spec")
    run = part(spec, "run")
    claim = part(part(run, "storageVolume"), "persistentVolumeClaim")
    if spec.get("managedBy", names.MANAGER) != names.MANAGER:
        return None
    recorded = status.run or RunStatus()
    name = recorded.name or names.run_name(key.name, uid, str(run.get("name") or "") or None)
    # The query has options of the client, such as a region, and does not tell another place.
    path = str(run.get("storagePath") or "").partition("?")[0].rstrip("/")
    return RunKey(key.namespace, path, str(claim.get("claimName") or ""), name)


def _parse(spec: object, name: str) -> TrainJobSpec | InvalidSpec:
    try:
        return parse_spec(spec, name=name)
    except InvalidSpec as error:
        # Without its traceback and cause, which would keep the whole spec in memory.
        return InvalidSpec(error.field, error.message)


def _find_queued_since(status: JobStatus) -> str | None:
    condition = status.find_condition(SUSPENDED) if status.phase == "Queued" else None
    if condition is not None and condition.is_true:
        return condition.last_transition_time
    return None
