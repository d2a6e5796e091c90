"""spec.logs: what the head pod's log repeats, and what of the logs is kept in the storage."""

from __future__ import annotations

from typing import Literal

from railhead.api.model import Model, checked, optional, rules
from railhead.api.quantities import Quantity, at_least, parse_quantity
from railhead.contract.log_archive import Archive

# Workers whose lines are all forwarded by default.
MOST_FORWARDED = 16
ARCHIVE_PER_RANK = "4Mi"
ARCHIVE_PER_RUN = "1Gi"


class Logs(Model):
    """What the head pod's log has of the ranks' output, and what of all logs is kept in run.storagePath."""

    model_config = checked(
        (
            ".archive",
            "!has(self.archive) || self.archive != 'None' || (!has(self.archivePerRank) && !has(self.archivePerRun))",
            "archivePerRank and archivePerRun have no effect with archive None; remove them",
        ),
        (
            ".archivePerRun",
            "!has(self.archivePerRun) || quantity(string(self.archivePerRun)).compareTo(quantity("
            f"has(self.archivePerRank) ? string(self.archivePerRank) : '{ARCHIVE_PER_RANK}')) >= 0",
            f"must be at least archivePerRank, which is {ARCHIVE_PER_RANK} by default",
        ),
    )
    forward: Literal["All", "Rank0", "None"] | None = optional(
        "Which ranks' output is copied to the head pod's log: that of all ranks, of rank 0, or of none. "
        "Default: All up to 16 workers (maxWorkers of an elastic job), else Rank0."
    )
    archive: Archive | None = optional(
        "Which logs are kept, compressed, in .railhead/logs of the run's folder: of no attempt, of those "
        "that did not succeed, or of all. Default: Failed if run.storagePath is a path, else None; the operator may "
        "have another default, and a limit."
    )
    archive_per_rank: Quantity | None = optional(
        "How much of one rank's log is kept in an attempt, compressed: the first quarter and the newest "
        f"three. The same for the head's and each worker pod's own. Default: {ARCHIVE_PER_RANK}.",
        json_schema_extra=rules(at_least("64Ki", why="a number without a unit is in bytes")),
    )
    archive_per_run: Quantity | None = optional(
        "How much is kept of all attempts together, compressed. The oldest attempts go first. "
        f"Default: {ARCHIVE_PER_RUN}.",
        json_schema_extra=rules(at_least("1Mi", why="a number without a unit is in bytes")),
    )

    @property
    def rank_bytes(self) -> int:
        """archivePerRank, or its default."""
        return int(parse_quantity(self.archive_per_rank or ARCHIVE_PER_RANK))

    @property
    def run_bytes(self) -> int:
        """archivePerRun, or its default."""
        return int(parse_quantity(self.archive_per_run or ARCHIVE_PER_RUN))
