"""The files of a checkpoint's local folder, as they were when it was reported, and what has become of them since.

Arrow lists the folder and then copies what it has listed. A folder that somebody empties meanwhile thus becomes an
empty or a partial checkpoint, without an error. So the folder is listed before the copy and after it, which costs no
request to the storage. Only if a file has changed, the storage is asked what it has.
"""

from __future__ import annotations

import os
import stat
import threading
from typing import Callable, Dict, List, Mapping, NamedTuple, Optional, Tuple

from railhead.driver.messages.log import log

NAMED = 5  # files, in a message
_ADVICE = (
    "write no file of the folder while ray.train.report uploads it, and keep the folder until then: with "
    "CheckpointUploadMode.ASYNC that is after report has returned, so use a new folder for each report, and "
    "delete_local_checkpoint_after_upload=True to remove it"
)


class LocalFile(NamedTuple):
    """One file: which it is, how large, and when it was written last."""

    inode: int
    size: int
    written: int


class CheckpointFiles:
    """What a local folder has had when its checkpoint was reported.

    The rank's training thread and the thread of an upload in the background note the files, whoever comes first: the
    folder cannot change before the former returns to the user's code.

    `may_grow`: a file that grows is a log, because the training thread waits for the upload. Otherwise that thread may
    be writing the next step's files.
    """

    def __init__(self, folder: str, *, may_grow: bool) -> None:
        self._folder = folder
        self._may_grow = may_grow
        self._lock = threading.Lock()
        self._noted: Optional[Dict[str, LocalFile]] = None

    @property
    def number(self) -> int:
        return len(self._noted or ())

    @property
    def size(self) -> int:
        return sum(file.size for file in (self._noted or {}).values())

    def note(self) -> None:
        """Lists the folder, once."""
        with self._lock:
            if self._noted is None:
                self._noted, others = list_files(self._folder)
                _warn_of_others(self._folder, others)

    def find_damage(self, list_stored: Callable[[], Mapping[str, int]]) -> str:
        """Returns what is wrong with the copy of the folder, or an empty string.

        `list_stored` returns the sizes of the copied files by name, and is called only if the folder has changed.
        """
        noted = self._noted or {}
        now, _ = list_files(self._folder)
        changed = {name: file for name, file in noted.items() if now.get(name) != file}
        if not changed:
            return ""
        stored = list_stored()
        found = (self._describe(name, file, now.get(name), stored.get(name)) for name, file in sorted(changed.items()))
        damaged = [text for text in found if text]
        if not damaged:
            return ""
        return (
            f"the checkpoint in {self._folder} is not committed, because {len(damaged)} of its {len(noted)} files "
            f"changed during the upload: {_name_some(damaged)}; {_ADVICE}"
        )

    def _describe(self, name: str, noted: LocalFile, now: Optional[LocalFile], stored: Optional[int]) -> str:
        """Returns an empty string if the storage has what there was."""
        if stored is None:
            return f"{name} (not uploaded)"
        if now is None and stored == noted.size:
            return ""
        if self._may_grow and now is not None and now.inode == noted.inode and now.size > noted.size <= stored:
            return ""
        if stored == noted.size:
            return f"{name} (written again)"
        return f"{name} ({noted.size} bytes when reported, {stored} uploaded)"


def list_files(folder: str) -> Tuple[Dict[str, LocalFile], List[str]]:
    """Returns what Arrow copies from the folder, by relative name, and the names of what it leaves out.

    Arrow follows links. It leaves out what is no file, such as a socket or a link to nothing. What vanishes meanwhile
    is absent.
    """
    files: Dict[str, LocalFile] = {}
    others: List[str] = []
    waiting = [""]
    while waiting:
        parent = waiting.pop()
        try:
            entries = os.scandir(os.path.join(folder, parent))
        except OSError:
            continue
        with entries:
            for entry in entries:
                name = f"{parent}{entry.name}"
                try:
                    found = entry.stat()
                except OSError:
                    others.append(name)
                    continue
                if stat.S_ISREG(found.st_mode):
                    files[name] = LocalFile(found.st_ino, found.st_size, found.st_mtime_ns)
                elif not stat.S_ISDIR(found.st_mode):
                    others.append(name)
                elif not _is_cycle(entry):
                    waiting.append(f"{name}/")
    return files, others


def _is_cycle(entry: os.DirEntry[str]) -> bool:
    """Returns whether it is a link to a folder that it is in."""
    if not entry.is_symlink():
        return False
    target = os.path.realpath(entry.path)
    return f"{os.path.realpath(os.path.dirname(entry.path))}/".startswith(f"{target}/")


def _warn_of_others(folder: str, names: List[str]) -> None:
    if names:
        some = _name_some(sorted(names))
        log(f"the checkpoint in {folder} is uploaded without {some}: no files, or links to nothing")


def _name_some(names: List[str]) -> str:
    some = ", ".join(names[:NAMED])
    if len(names) > NAMED:
        some += f" and {len(names) - NAMED} more"
    return some
