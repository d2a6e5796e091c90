"""Which logs a job keeps: its own wish, and what the operator says about all jobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Optional, Tuple, get_args

Archive = Literal["None", "Failed", "All"]  # of no attempt, of those that do not succeed, of all
ARCHIVES: Tuple[Archive, ...] = get_args(Archive)  # each keeps more than the one before


@dataclass(frozen=True)
class ArchivePolicy:
    """What the operator says about logs.archive.

    Attributes:
        default: for jobs without it; None = it follows from the storage.
        most: what no job may exceed.
    """

    default: Optional[Archive] = None
    most: Archive = "All"


BY_STORAGE = ArchivePolicy()


def choose_archive(wanted: Optional[Archive], *, storage_path: str, policy: ArchivePolicy) -> Archive:
    """Returns the job's logs.archive, or its default, up to what the operator allows."""
    default: Archive = policy.default or ("Failed" if storage_path.startswith("/") else "None")
    return min(wanted or default, policy.most, key=ARCHIVES.index)
