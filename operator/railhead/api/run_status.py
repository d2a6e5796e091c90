"""status.run: which run the job has, and the TrainJob that the status was written for."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from railhead.api.model import StatusModel, optional, text_field
from railhead.api.names import MAX_NAME

MAX_FORMER_UIDS = 8


class RunStatus(StatusModel):
    """The job's run, and the TrainJob that this status was written for. The operator alone writes it."""

    name: str = text_field("Name of the run: its folder in spec.run.storagePath.", MAX_NAME)
    uid: str = text_field(
        "uid of the TrainJob that the status is about. Another one: the job was restored from a backup.", 64
    )
    former_uids: list[Annotated[str, Field(max_length=64)]] | None = optional(
        "uids of the TrainJobs that this one was restored from; their run is its own.", max_length=MAX_FORMER_UIDS
    )


def list_uids(uid: str, run: RunStatus | None) -> tuple[str, ...]:
    """Returns those of a TrainJob and of the ones that it was restored from: its attempts may have been theirs."""
    former = (*(run.former_uids or ()), run.uid) if run is not None else ()
    return tuple(dict.fromkeys((uid, *filter(None, former))))
