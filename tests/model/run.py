"""The storage of one job's run: its commits, and the fence that keeps older attempts from committing."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field


@dataclass
class Run:
    """One run.

    Attributes:
        commits: as (attempt, epoch).
        starts: of worker groups, as (attempt, first epoch).
        claim: the newest attempt in the fence, and the uid of its head.
        has_succeeded: a driver has left its success.
        fenced: how often the fence kept another head from committing.
        writers: by attempt, the uids of the heads that have committed.
    """

    commits: list[tuple[int, int]] = field(default_factory=list)
    starts: list[tuple[int, int]] = field(default_factory=list)
    claim: tuple[int, str] = (0, "")
    has_succeeded: bool = False
    fenced: int = 0
    writers: defaultdict[int, set[str]] = field(default_factory=lambda: defaultdict(set))

    @property
    def last(self) -> int:
        """The newest committed epoch, -1 = none."""
        return self.commits[-1][1] if self.commits else -1

    def commit(self, attempt: int, epoch: int, *, pod: str) -> bool:
        """Returns whether the fence allowed it."""
        if (attempt, pod) < self.claim:
            self.fenced += 1
            return False
        assert epoch == self.last + 1, f"epoch {epoch} of attempt {attempt} comes after {self.last}"
        self.commits.append((attempt, epoch))
        self.writers[attempt].add(pod)
        return True
