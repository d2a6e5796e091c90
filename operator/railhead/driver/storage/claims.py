"""Who may write to a run's folder: a later attempt fences off earlier ones, which may still be running.

A head on an unresponsive node may keep running next to its successor. So every driver
writes its claim to the run's folder before fit(), and checks it before each commit and each
deletion (`train_controller.fence_step`). This needs neither a clock nor a lock in the storage:

- Claims have a total order. Within a job the attempt decides, then the pod; a job that may take the run from
  another one does so with the next turn.
- Only a job whose spec has a `run.name`, or that continues the run of the TrainJob that it was restored from, may take
  a run from another job. Any other job stops at the claim of another one, and changes nothing.
- The same attempt may have a second head: the operator makes the pod again if it did not see the first one. The first
  head may still run, so the second one stops at its claim. Of two that start at once the order of the pods decides.
- Each claim is a separate file, so none overwrites another, and a driver reads all of
  them after it has written its own. If two start at once, at least one sees the other.
- The highest is also written to one file, the only one read later. A driver that finds a lower
  claim there, from a slow start, reads all claims and writes its own back.

The head that has the run leaves the attempt's success there, since it may vanish before the operator hears of it. The
job's next attempt believes that file, and does not train again. Anything else in its place counts as absent: half a
file, or one that another job with the same `run.name` has left. A job that was restored believes the file of the
TrainJob that it was restored from.
"""

from __future__ import annotations

import contextlib
import json
import re
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Collection, Iterable, Optional, Sequence, Union

from railhead.contract.outcome import Outcome
from railhead.contract.run_folder import OWN_FOLDER
from railhead.driver.messages.attempt_errors import Fenced, JobRefused

if TYPE_CHECKING:
    from railhead.driver.storage.path_folder import PathFolder
    from railhead.driver.storage.run_folder_files import RunFolder

CLAIMS = f"{OWN_FOLDER}/claims"
FENCE = f"{OWN_FOLDER}/fence"
OUTCOME = f"{OWN_FOLDER}/outcome.json"
_JOB = re.compile(r"[a-z0-9.-]+/[a-z0-9.-]+")
_CLAIM = re.compile(r"(\d{1,9})\.([0-9A-Za-z-]{1,64})\.(\d{1,9})(?:\.([0-9A-Za-z-]{1,64}))?")


@dataclass(frozen=True)
class Claim:
    """One head's claim. `turn` counts the run's owners, from 1; `uid` is the job's, `pod` the head's."""

    turn: int
    uid: str
    attempt: int
    pod: str = ""

    def __str__(self) -> str:
        return f"{self.turn:06d}.{self.uid}.{self.attempt:06d}" + (f".{self.pod}" if self.pod else "")

    @staticmethod
    def parse(text: str) -> Optional[Claim]:
        found = _CLAIM.fullmatch(text.strip())
        if found:
            return Claim(int(found[1]), found[2], int(found[3]), found[4] or "")
        return None

    def is_below(self, other: Claim) -> bool:
        if self.uid == other.uid:
            return (self.attempt, self.pod) < (other.attempt, other.pod)
        return (self.turn, self.uid) < (other.turn, other.uid)


@dataclass(frozen=True)
class Claimant:
    """The job that claims a run.

    Attributes:
        job: its namespace and name, for the message that another job gets.
        former_uids: of the TrainJobs that it was restored from: their runs are its own.
        is_sharing: its spec names the run, which may be another job's.
    """

    uid: str
    job: str = ""
    former_uids: tuple[str, ...] = ()
    is_sharing: bool = False

    def has_claimed(self, claim: Claim) -> bool:
        return claim.uid == self.uid or claim.uid in self.former_uids


def take_run(
    folder: RunFolder, claimant: Claimant, *, attempt: int, pod: str = "", before: Optional[Sequence[Claim]] = None
) -> Claim:
    """Claims the run; `before`: the claims so far, if the caller has just listed them.

    Raises Fenced or JobRefused when the run belongs to another.
    """
    if before is None:
        before = list_claims(folder)
    uid = claimant.uid
    own = [claim.turn for claim in before if claim.uid == claimant.uid]
    claim = Claim(max(own) if own else 1 + max((c.turn for c in before), default=0), uid, attempt, pod)
    _refuse_below(folder, claim, before)
    _refuse_foreign(folder, claimant, before)
    if any((each.uid, each.attempt) == (uid, attempt) and each.pod != pod for each in before):
        raise _build_fenced(claim, attempt)
    folder.write(f"{CLAIMS}/{claim}", claimant.job.encode())
    folder.write(FENCE, str(claim).encode())
    _refuse_below(folder, claim, list_claims(folder))
    return claim


def check_claim(folder: RunFolder, claim: Claim) -> None:
    """Checks by one small read. Raises Fenced or JobRefused when the run now belongs to another."""
    data = folder.read(FENCE)
    if data == str(claim).encode():
        return
    found = Claim.parse(data.decode(errors="replace")) if data else None
    _refuse_below(folder, claim, [found] if found else [])
    # It may be in the middle of being written.
    _refuse_below(folder, claim, list_claims(folder))
    folder.write(FENCE, str(claim).encode())


def list_claims(folder: RunFolder) -> list[Claim]:
    return [claim for claim in map(Claim.parse, folder.list_names(CLAIMS)) if claim]


def find_first_uid(claims: Iterable[Claim]) -> str:
    """Returns the uid of the TrainJob that has begun the run. There is at least one claim."""
    return min(claims, key=attrgetter("turn", "uid")).uid


def _refuse_foreign(folder: RunFolder, claimant: Claimant, before: Iterable[Claim]) -> None:
    """Refuses a run that another job owns: it is that of the last turn, whether or not that job still runs."""
    newest = max(before, key=attrgetter("turn", "uid"), default=None)
    if newest is None or claimant.is_sharing or claimant.has_claimed(newest):
        return
    raise JobRefused(
        "RunOfAnotherJob",
        f"run.name: the run in {folder.path} belongs to {_name_owner(folder, newest)}, so this job has neither read "
        "nor changed it; give the run in RunConfig another name, or none. To continue that run, set spec.run.name to "
        "its name; to begin a new run from one of its checkpoints, use spec.resumeFrom",
    )


def _refuse_below(folder: RunFolder, claim: Claim, others: Iterable[Claim]) -> None:
    above = [other for other in others if claim.is_below(other)]
    if any(other.uid == claim.uid for other in above):
        raise _build_fenced(claim, max(other.attempt for other in above if other.uid == claim.uid))
    if above:
        raise JobRefused(
            "RunTakenOver",
            f"run.name: {_name_owner(folder, above[0])} continues the run in {folder.path} and started later; this job "
            "no longer commits or deletes anything; give one of them another run.name",
        )


def _name_owner(folder: RunFolder, claim: Claim) -> str:
    """Returns the job's name, which its claim has, and its uid."""
    name = b""
    # The name is for the message only; the claim is refused without it as well.
    with contextlib.suppress(OSError):
        name = folder.read(f"{CLAIMS}/{claim}") or b""
    job = name[:317].decode(errors="replace")
    if _JOB.fullmatch(job) is None:
        return f"another TrainJob (uid {claim.uid})"
    return f"TrainJob {job} (uid {claim.uid})"


def _build_fenced(claim: Claim, newest: int) -> Fenced:
    if newest == claim.attempt:
        return Fenced(f"attempt {newest} has another head pod, which has the run; this one commits and deletes nothing")
    return Fenced(
        f"attempt {newest} has taken over the run; attempt {claim.attempt} no longer commits or deletes anything"
    )


def find_claim(folder: RunFolder, *, uid: str, attempt: int, pod: str) -> Optional[Claim]:
    """Returns the claim of this head, None if it has made none."""
    claims = list_claims(folder)
    return next((each for each in claims if (each.uid, each.attempt, each.pod) == (uid, attempt, pod)), None)


def leave_outcome(folder: RunFolder, claim: Claim, outcome: Outcome) -> None:
    """Writes the outcome of the head with this claim. Raises Fenced or JobRefused when the run is another's by now."""
    check_claim(folder, claim)
    values = {"uid": claim.uid, "attempt": claim.attempt, "outcome": outcome.to_json()}
    folder.replace(OUTCOME, json.dumps(values).encode())


def read_success(
    folder: Union[PathFolder, RunFolder], *, uid: str, attempt: int, former_uids: Collection[str] = ()
) -> Optional[Outcome]:
    """Returns the outcome that an earlier attempt of this job has left, or None.

    `former_uids`: as in `Claimant`. The backup that such a job comes from may be older than its last attempt.
    """
    try:
        values = json.loads(folder.read(OUTCOME) or b"")
        is_earlier = values["uid"] in former_uids or values["attempt"] < attempt
        is_ours = values["uid"] in (uid, *former_uids) and values["attempt"] > 0 and is_earlier
        outcome = Outcome.from_json(values["outcome"]) if is_ours else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if outcome is not None and outcome.has_succeeded:
        return outcome
    return None


def forget_outcome(folder: RunFolder) -> None:
    """Removes the outcome of an earlier attempt; call it only behind the fence, in one that is going to train."""
    # An outcome that stays does no harm: no other attempt believes it.
    with contextlib.suppress(OSError):
        folder.delete(OUTCOME)
