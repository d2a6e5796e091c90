"""How trackers such as Weights & Biases and MLflow know a run, and which links to their pages are shown."""

from __future__ import annotations

import hashlib
import re

from railhead.contract.run_folder import shorten_uid

RUN_ID = "RAILHEAD_RUN_ID"  # environment variable of each rank: the id of its run
MAX_LINK = 1024
# Of W&B's 64, since each rank but the first adds its number.
MAX_ID = 54
_DIGEST_CHARS = 8
_NOT_PLAIN = re.compile(r"[^0-9A-Za-z._-]")
# Of printable ASCII only what no browser reads in another way than this: no user before the host, and no backslash.
_LINK = re.compile(
    r"https?://(?:[0-9A-Za-z_-]+(?:\.[0-9A-Za-z_-]+)*\.?|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?"
    r"(?:[/?#][0-9A-Za-z/?#:@!$&()*+,;=.~_%|^{}\[\]'-]*)?"
)


def name_tracked_run(run_name: str, first_uid: str) -> str:
    """Returns the id of a run in all trackers: its name, and the beginning of `first_uid`.

    `first_uid`: of the TrainJob that has begun it. Two runs have the same name in two namespaces or clusters, or after
    the first one's folder was deleted, but TrainJobs never have the same uid. A name that some trackers refuse gets a
    digest, so that runs with similar names differ.
    """
    ending = f"-{shorten_uid(first_uid)}"
    plain = _NOT_PLAIN.sub("-", run_name)
    if ending not in plain:
        plain += ending
    if len(plain) <= MAX_ID and not _NOT_PLAIN.search(run_name):
        return plain
    ending = f"-{hashlib.sha256(run_name.encode(errors='replace')).hexdigest()[:_DIGEST_CHARS]}{ending}"
    return plain[: MAX_ID - len(ending)] + ending


def is_link(text: str) -> bool:
    """Returns whether this is an address of a web page that may be shown as a link, whoever has written it."""
    return len(text) <= MAX_LINK and _LINK.fullmatch(text) is not None
