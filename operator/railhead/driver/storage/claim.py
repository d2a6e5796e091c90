"""The run becomes this attempt's, right before fit(): the fence first, then what Ray is going to read is made whole."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any, Mapping, Optional

from railhead.contract import environment as e
from railhead.contract.job_input import JobInput
from railhead.driver.errors import JobRefused
from railhead.driver.pod import RUN_URI, Pod, find_storage_path
from railhead.driver.reporting.progress import build_checkpoint_uri
from railhead.driver.storage.ask import ask_storage
from railhead.driver.storage.fence import Claim, take_run
from railhead.driver.storage.repair import UNREADABLE, Found, examine, keep_copy, read_copy
from railhead.driver.storage.run_folder import RunFolder, Size, open_run_folder
from railhead.driver.storage.snapshot import FILE, write_snapshot
from railhead.driver.train_controller.best_checkpoint import parse_known
from railhead.driver.train_controller.ray_checkpoints import Form, find_form
from railhead.driver.trainers.offer import RUN_WARNING

# From here to the callbacks that Ray makes.
RUN_CLAIM = "RAILHEAD_RUN_CLAIM"
RUN_RESUMED_FROM = "RAILHEAD_RUN_RESUMED_FROM"  # the URI of a checkpoint, or empty


@dataclass(frozen=True)
class Claimed:
    """Attributes: the name of the checkpoint that the run goes on from, and {reason, message} of what was wrong."""

    latest: Optional[str]
    warning: Optional[dict[str, str]]


def claim_run(run_config: Any, *, pod: Pod, job: JobInput) -> Claimed:
    """By the trainer's own RunConfig. Raises Fenced, JobRefused or StorageUnreachable."""
    own_uri = build_checkpoint_uri(find_storage_path(pod, job), job.run_name)
    # A run of another name or path is known to the job for this fit() only, and may be a new one each time.
    is_own = os.environ.get(RUN_URI) == own_uri
    commits = pod.checkpoint_index + 1 if is_own else 0
    known = {name: commit.index for name, commit in parse_known(os.environ.get(e.KNOWN_CHECKPOINTS, "")).items()}
    form = find_form()

    def ask() -> tuple[Claim, Claimed]:
        folder = open_run_folder(run_config)
        claim = take_run(folder, uid=job.uid, attempt=pod.attempt)
        return claim, restore_run(folder, form=form, known=known if commits else {}, commits=commits)

    claim, claimed = ask_storage(run_config.storage_path, ask)
    os.environ[RUN_CLAIM] = str(claim)
    begins_from = build_checkpoint_uri(os.environ[RUN_URI], claimed.latest) if claimed.latest else ""
    if not begins_from and is_own and pod.resume_from:
        check_initial(pod.resume_from)
        begins_from = pod.resume_from
    os.environ[RUN_RESUMED_FROM] = begins_from
    if claimed.warning:
        os.environ[RUN_WARNING] = json.dumps(claimed.warning)
        print(f"railhead: {claimed.warning['message']}", flush=True)
    return claimed


def check_initial(uri: str) -> None:
    """Raises JobRefused or StorageUnreachable when a job cannot begin from this checkpoint."""

    def measure() -> Size:
        from ray.train import Checkpoint

        checkpoint = Checkpoint(uri)
        return RunFolder(checkpoint.filesystem, checkpoint.path).measure("")

    if not ask_storage(uri, measure, field="spec.resumeFrom").files:
        raise JobRefused(
            "ResumeFromNotFound",
            f"spec.resumeFrom {uri}: there is no checkpoint, the folder is missing or empty as the head pod sees it; "
            "look at the name, and at run.storageVolume when it is a path",
        )


def restore_run(folder: RunFolder, *, form: Form, known: Mapping[str, int], commits: int) -> Claimed:
    """To be called behind the fence. `commits`: how many the status knows of. Raises JobRefused when none is left."""
    found = examine(folder, known=known)
    if found.snapshot is None:
        return _begin_anew(folder, found, commits=commits)
    text = write_snapshot(found.snapshot, fields=form.fields, ray_version=form.ray_version)
    if found.damage or not form.fields <= found.snapshot.fields:
        folder.replace(FILE, text.encode())
    copy = read_copy(folder)
    if copy.snapshot is None or copy.snapshot.entries != found.snapshot.entries:
        keep_copy(folder, text, sizes=copy.sizes)
    return Claimed(found.snapshot.latest, _warn(found, f"the run goes on from {found.snapshot.latest}"))


def _begin_anew(folder: RunFolder, found: Found, *, commits: int) -> Claimed:
    if commits:
        what = found.damage.text if found.damage else f"{FILE} is gone"
        raise JobRefused(
            "CheckpointsLost",
            f"run.storagePath: {what}, and no other checkpoint of the {commits} that were committed is whole; training "
            "does not begin anew by itself: bring the run's folder back, or delete the job and apply it again",
        )
    data = folder.read(FILE)
    if data is not None and found.damage:  # Ray would raise at it
        folder.write(UNREADABLE, data)
        folder.delete(FILE)
    return Claimed(None, _warn(found, "no checkpoint is known, so training begins anew"))


def _warn(found: Found, then: str) -> Optional[dict[str, str]]:
    return {"reason": found.damage.reason, "message": f"{found.damage.text}; {then}"} if found.damage else None
