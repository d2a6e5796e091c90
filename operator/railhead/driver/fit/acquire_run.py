"""Acquires the run for this attempt, right before fit(): takes the fence, then repairs what Ray is going to read."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Mapping, Optional

from railhead.contract import environment
from railhead.contract.callbacks import ignore
from railhead.contract.checkpoint_uri import build_checkpoint_uri
from railhead.contract.job_input import JobInput
from railhead.contract.report import RunWarning
from railhead.contract.snapshot import SNAPSHOT, write_snapshot
from railhead.contract.trackers import name_tracked_run
from railhead.driver.container.packages import find_version
from railhead.driver.container.pod_input import Pod
from railhead.driver.container.run_context import RUN_NAME, RunContext
from railhead.driver.mailbox.progress import parse_known
from railhead.driver.messages.attempt_errors import JobRefused
from railhead.driver.messages.log import log
from railhead.driver.ray.checkpoint_manager import list_fields
from railhead.driver.ray.supported_versions import warn_of_newer_ray, warn_without_notices
from railhead.driver.ray.types import RunConfig
from railhead.driver.storage.claims import Claim, Claimant, find_first_uid, forget_outcome, list_claims, take_run
from railhead.driver.storage.resumable import UNREADABLE, find_resumable, read_copy
from railhead.driver.storage.run_folder_files import RunFolder, open_run_folder
from railhead.driver.storage.storage_call import Warn, call_storage
from railhead.driver.storage.unfinished_uploads import finish_commit, forget_uploads

# Acquiring lists the checkpoints, of which a run may have thousands.
ACQUIRE_SECONDS = 600.0


def acquire_run(run_config: RunConfig, run: RunContext, *, pod: Pod, job: JobInput, warn: Warn) -> RunContext:
    """Acquires the run of the trainer's own RunConfig, and writes it for the callbacks. Raises Fenced or JobRefused."""
    known = _list_known(run)
    commits = _count_commits(run, known, pod=pod, job=job)
    fields = list_fields()
    claimant = Claimant(
        job.uid,
        f"{job.namespace}/{job.name}",
        former_uids=tuple(job.former_uids),
        is_sharing=job.is_sharing_run and run.is_inside,
    )
    # Only then has an earlier attempt saved what this one could miss under a new name.
    may_be_renamed = run.is_named and run.fit == 1 and pod.attempt > 1 and pod.checkpoint_index >= 0

    def acquire() -> tuple[list[Claim], Optional[str], Optional[RunWarning]]:
        folder = open_run_folder(run_config)
        before = list_claims(folder)
        claim = take_run(folder, claimant, attempt=pod.attempt, pod=pod.uid, before=before)
        forget_outcome(folder)
        return ([*before, claim], *restore_run(folder, fields=fields, known=known, commits=commits))

    claims, latest, damage = call_storage(
        run_config.storage_path, acquire, timeout=ACQUIRE_SECONDS, is_known=commits > 0, warn=warn
    )
    resumed_from = ""
    if latest:
        resumed_from = build_checkpoint_uri(run.run_uri, latest)
    elif run.fit == 1 and pod.resume_from:
        check_resume_from(pod.resume_from, warn=warn)
        resumed_from = pod.resume_from
    if damage:
        log(damage.message)
    elif resumed_from:
        log(f"the run resumes from {resumed_from}")
    *before, claim = claims
    renamed = None
    if may_be_renamed and not any(claimant.has_claimed(each) for each in before):
        renamed = warn_of_new_name(run_config.name)
    # The status shows one warning: the first of these, in the order of their weight.
    version = find_version()
    warning = damage or run.warning or renamed
    warning = warning or warn_without_notices(version, end_seconds=job.end_seconds) or warn_of_newer_ray(version)
    run_id = name_tracked_run(run_config.name, find_first_uid(claims))
    claimed = replace(run, claim=str(claim), run_id=run_id, resumed_from=resumed_from, warning=warning)
    claimed.write()
    return claimed


def _list_known(run: RunContext) -> dict[str, int]:
    """Returns the index of each commit that the status knows of this run, by the name of its folder."""
    # The job knows a run with a path of the script's for this fit() only; it may be a new one each time.
    if run.warning:
        return {}
    commits = parse_known(os.environ.get(environment.KNOWN_CHECKPOINTS, ""), run_uri=run.run_uri)
    return {name: commit.index for name, commit in commits.items()}


def _count_commits(run: RunContext, known: Mapping[str, int], *, pod: Pod, job: JobInput) -> int:
    """Returns how many commits the status records of this run."""
    if run.is_own and not job.entrypoint:
        return pod.checkpoint_index + 1
    # A script has several runs, and the newest checkpoint may be of another one.
    return max(known.values(), default=-1) + 1


def warn_of_new_name(name: str) -> RunWarning:
    """Logs and returns the warning that no earlier attempt has trained under this name."""
    message = (
        f'RunConfig has the name "{name}", under which no earlier attempt of this job has trained, so this one resumes '
        f'from none of their checkpoints; use a name that stays the same, or RunConfig(name=os.environ["{RUN_NAME}"])'
    )
    log(message)
    return RunWarning("RunNameDiffers", message)


def check_resume_from(uri: str, *, warn: Warn) -> None:
    """Raises JobRefused when a job cannot start from this checkpoint."""

    def list_names() -> list[str]:
        from ray.train import Checkpoint

        checkpoint = Checkpoint(uri)
        return RunFolder(checkpoint.filesystem, checkpoint.path).list_names("")

    if not call_storage(uri, list_names, field="spec.resumeFrom", warn=warn):
        raise JobRefused(
            "ResumeFromNotFound",
            f"spec.resumeFrom {uri}: there is no checkpoint: in the head pod the folder is missing or empty; "
            "check the name, and run.storageVolume if it is a path",
        )


def restore_run(
    folder: RunFolder, *, fields: frozenset[str], known: Mapping[str, int], commits: int
) -> tuple[Optional[str], Optional[RunWarning]]:
    """Returns the name of the checkpoint that the run resumes from, None for from scratch, and a warning or None.

    Call only behind the fence. `commits`: how many the status records. Raises JobRefused when none is left.
    """
    snapshot, damage = find_resumable(folder, known=known)
    forget_uploads(folder, None if damage else known)
    if snapshot is None:
        if commits:
            what = f"{SNAPSHOT} is gone"
            if damage:
                what = damage.message
            raise JobRefused(
                "CheckpointsLost",
                f"run.storagePath: {what}, and none of the {commits} committed checkpoints is intact; Railhead does "
                "not restart training from scratch by itself: restore the run's folder, or begin from scratch with "
                "another job and another run.name",
            )
        data = folder.read(SNAPSHOT)
        # Ray would raise on a damaged one.
        if data is not None and damage:
            folder.write(UNREADABLE, data)
            folder.delete(SNAPSHOT)
        return None, _complete(damage, "no checkpoint is known, so training starts from scratch")
    # The Ray of this image may read fields that the one that wrote the snapshot did not have.
    if damage or not fields <= snapshot.fields:
        folder.replace(SNAPSHOT, write_snapshot(snapshot, fields=fields, ray_version=find_version()).encode())
    copy = read_copy(folder)
    if copy is None or copy.entries != snapshot.entries:
        finish_commit(folder, ignore)
    return snapshot.latest, _complete(damage, f"the run resumes from {snapshot.latest}")


def _complete(damage: Optional[RunWarning], then: str) -> Optional[RunWarning]:
    if damage:
        return replace(damage, message=f"{damage.message}; {then}")
    return None
