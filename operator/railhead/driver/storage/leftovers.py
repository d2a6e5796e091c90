"""Folders of checkpoints whose upload has failed: recorded when it fails, removed before a later group trains.

Nothing else is removed. A record names a folder that Ray Train itself has named, for this one upload; the
controller that wrote it has seen the upload fail, so nobody is writing there any more. It is a file
without content, which a full disk still takes.
"""

from __future__ import annotations

import re
from typing import Collection

from railhead.driver.storage.run_folder import OWN_FOLDER, RunFolder

RECORDS = f"{OWN_FOLDER}/failed-uploads"
# By the time of the upload. A name that the user chose may be an older folder's; and the next upload fills it again.
_NAMED_BY_RAY = re.compile(r"checkpoint_\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d\.\d{6}")


def record_failed_uploads(folder: RunFolder, names: Collection[str]) -> None:
    for name in filter(_NAMED_BY_RAY.fullmatch, names):
        folder.write(f"{RECORDS}/{name}", b"")


def remove_failed_uploads(folder: RunFolder, *, committed: Collection[str]) -> list[str]:
    """Call only behind the fence. Returns what it has removed."""
    removed = []
    for name in filter(_NAMED_BY_RAY.fullmatch, folder.list_names(RECORDS)):
        if name not in committed and folder.find_existing([name]):
            folder.delete_folder(name)
            removed.append(name)
        folder.delete(f"{RECORDS}/{name}")
    return removed
