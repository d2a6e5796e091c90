"""Who may write into a run's folder: a later attempt shuts out the earlier ones, which may go on running.

A head on a node that does not answer may live on beside its successor. So every driver
leaves its claim in the run's folder before fit(), and looks at it before each commit and each
deletion (`train_controller.fence`). Nothing here needs a clock or a lock of the storage:

- Claims have a total order. Within a job the attempt decides; a job that finds the claim of
  another one, of the same `run.name`, takes over with the next turn.
- Each claim is a file of its own, so none overwrites another, and a driver looks at all of
  them after it has written its own. Of two that begin at once, one sees the other.
- The highest is also written into one file, which is all that is read later. A driver that
  finds a lower one there, from a slow start, looks at all claims and puts its own back.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Iterable, Optional

from railhead.driver.errors import Fenced, JobRefused
from railhead.driver.storage.run_folder import OWN_FOLDER, RunFolder

CLAIMS = f"{OWN_FOLDER}/claims"
FENCE = f"{OWN_FOLDER}/fence"
_CLAIM = re.compile(r"(\d{1,9})\.([0-9A-Za-z-]{1,64})\.(\d{1,9})")


@dataclass(frozen=True)
class Claim:
    """One attempt's. `turn` counts the jobs that have had the run, from 1; `uid` is the job's."""

    turn: int
    uid: str
    attempt: int

    def __str__(self) -> str:
        return f"{self.turn:06d}.{self.uid}.{self.attempt:06d}"

    @staticmethod
    def parse(text: str) -> Optional[Claim]:
        found = _CLAIM.fullmatch(text.strip())
        return Claim(int(found[1]), found[2], int(found[3])) if found else None

    def is_below(self, other: Claim) -> bool:
        if self.uid == other.uid:
            return self.attempt < other.attempt
        return (self.turn, self.uid) < (other.turn, other.uid)


def take_run(folder: RunFolder, *, uid: str, attempt: int) -> Claim:
    """Raises Fenced or JobRefused when the run is another's."""
    before = list_claims(folder)
    own = [claim.turn for claim in before if claim.uid == uid]
    claim = Claim(max(own) if own else 1 + max((c.turn for c in before), default=0), uid, attempt)
    refuse_below(claim, before)
    folder.write(f"{CLAIMS}/{claim}", b"")
    folder.write(FENCE, str(claim).encode())
    refuse_below(claim, list_claims(folder))
    return claim


def look(folder: RunFolder, claim: Claim) -> None:
    """One small read. Raises Fenced or JobRefused when the run is another's by now."""
    data = folder.read(FENCE)
    if data == str(claim).encode():
        return
    found = Claim.parse(data.decode(errors="replace")) if data else None
    refuse_below(claim, [found] if found else [])
    refuse_below(claim, list_claims(folder))  # it may be just being written
    folder.write(FENCE, str(claim).encode())


def list_claims(folder: RunFolder) -> list[Claim]:
    return [claim for claim in map(Claim.parse, folder.list_names(CLAIMS)) if claim]


def refuse_below(claim: Claim, others: Iterable[Claim]) -> None:
    above = [other for other in others if claim.is_below(other)]
    if any(other.uid == claim.uid for other in above):
        newest = max(other.attempt for other in above if other.uid == claim.uid)
        raise Fenced(
            f"attempt {newest} has taken over the run; attempt {claim.attempt} commits and deletes nothing more"
        )
    if above:
        raise JobRefused(
            "RunTakenOver",
            f"run.name: another TrainJob (uid {above[0].uid}) has the same run.name and run.storagePath and began "
            "later; this one commits and deletes nothing more; give one of them another run.name",
        )
