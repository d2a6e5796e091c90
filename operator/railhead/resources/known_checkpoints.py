"""The checkpoints of earlier attempts that the status knows, as the driver of the next attempt reads them."""

from __future__ import annotations

from railhead.api.status import JobStatus
from railhead.contract.checkpoint_uri import read_checkpoint_name, split_query
from railhead.json_object import Object


def describe_known(status: JobStatus) -> list[Object]:
    """Returns `contract.environment.KNOWN_CHECKPOINTS`: only the folders' names, because a local node rewrites paths.

    A script has a run for each fit(), and may have lost its head before the newest one had a commit.
    """
    current = split_query(status.run_uri)[0].rstrip("/")
    known = {c.index: c for c in (status.best_checkpoint, status.checkpoint) if c}
    described = []
    for index, checkpoint in sorted(known.items()):
        uri = split_query(checkpoint.uri)[0]
        if current and uri.startswith(f"{current}/"):
            run = current
        else:
            run = uri.rpartition("/")[0]
        parent, _, run_name = run.rpartition("/")
        place = {"run": run_name, "folder": parent.rpartition("/")[2]}
        commit = {"index": index, "time": checkpoint.time or "", "attempt": checkpoint.attempt}
        described.append({"name": read_checkpoint_name(checkpoint.uri, parent=run), **place, **commit})
    return described
