"""One upload: copies what changed in a pod's spool to the storage, in a process that ends afterwards.

The client of an object store takes 60 MB of memory, and a call to a storage that hangs cannot be ended: so neither is
in the entry process. With `spec.logs.archive: Failed` the attempt's files are removed after its success. A worker pod
may be uploading at that moment, so each upload looks for the success after it has written.
"""

from __future__ import annotations

import contextlib
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, NoReturn, Optional, Union

from railhead.contract.run_folder import LOGS, name_attempt
from railhead.driver.archive.archive_layout import list_surplus
from railhead.driver.messages.exception_text import describe_exception
from railhead.driver.storage.claims import FENCE, Claim, read_success
from railhead.driver.storage.path_folder import PathFolder

if TYPE_CHECKING:  # it imports much that a path does not need
    from railhead.driver.storage.run_folder_files import RunFolder

NOT_BEGUN = "the run has no folder yet"
Folder = Union[PathFolder, "RunFolder"]  # the run's; a file that it writes is new to a reader at once


@dataclass(frozen=True)
class Upload:
    """What to copy, from where to where.

    Attributes:
        spool: the folder of the spool.
        storage_path, run_name: of the job; its run's folder.
        uid, attempt: of the job.
        write: names of files, with how many of their first bytes to copy.
        delete: names of files that the spool has dropped.
        only_failed: a success removes the attempt's files.
        limit: bytes that all attempts may take, or None not to look.
    """

    spool: str
    storage_path: str
    run_name: str
    uid: str
    attempt: int
    only_failed: bool
    write: dict[str, int] = field(default_factory=dict)
    delete: list[str] = field(default_factory=list)
    limit: Optional[int] = None


def run_upload(path: str) -> NoReturn:
    """Exits with an error's text, or NOT_BEGUN, if it cannot be completed."""
    try:
        upload = Upload(**json.loads(Path(path).read_text()))
        if upload.storage_path.startswith("/") and not Path(upload.storage_path, upload.run_name).exists():
            # Training makes it, after the check that all pods share the storage.
            sys.exit(NOT_BEGUN)
        copy(upload, open_folder(upload.storage_path, upload.run_name))
    except Exception as error:
        sys.exit(describe_exception(error))
    sys.exit(0)


def open_folder(storage_path: str, run_name: str) -> Folder:
    if storage_path.startswith("/"):
        return PathFolder(str(PurePath(storage_path, run_name)))
    from railhead.driver.storage.run_folder_files import open_own_folder

    # An older pyarrow does not know the option.
    with contextlib.suppress(ValueError):
        return open_own_folder(ask_for_single_requests(storage_path), run_name)
    return open_own_folder(storage_path, run_name)


def ask_for_single_requests(uri: str) -> str:
    """Makes S3 write a small object with one request; else it takes three."""
    mark = "&" if "?" in uri else "?"
    if uri.startswith("s3://"):
        return f"{uri}{mark}allow_delayed_open=true"
    return uri


def copy(upload: Upload, folder: Folder) -> None:
    """Raises what the storage raises, and OSError of the spool. A copy that is repeated changes nothing."""
    place = f"{LOGS}/{name_attempt(upload.uid, upload.attempt)}"
    if _is_unwanted(upload, folder):
        remove_attempt(upload, folder)
        return
    for name, size in upload.write.items():
        try:
            with open(PurePath(upload.spool, name), "rb") as file:
                data = file.read(size)
        except FileNotFoundError:
            # Dropped meanwhile: the next upload deletes it.
            continue
        folder.write(f"{place}/{name}", data)
    for name in upload.delete:
        _delete(folder, f"{place}/{name}")
    if upload.write and _is_unwanted(upload, folder):
        remove_attempt(upload, folder)
    if upload.limit is not None and _has_run(upload, folder):
        files = folder.list_files(LOGS)
        for name in list_surplus(files, limit=upload.limit, uid=upload.uid, attempt=upload.attempt):
            _delete(folder, f"{LOGS}/{name}")


def _is_unwanted(upload: Upload, folder: Folder) -> bool:
    # `read_success` believes the attempts before the one that asks; here that of the upload itself counts too.
    return upload.only_failed and read_success(folder, uid=upload.uid, attempt=upload.attempt + 1) is not None


def remove_attempt(upload: Upload, folder: Folder) -> None:
    """Removes the files of the upload's attempt, if there are any. Raises what the storage raises."""
    with contextlib.suppress(FileNotFoundError):
        folder.delete_folder(f"{LOGS}/{name_attempt(upload.uid, upload.attempt)}")


def _delete(folder: Folder, name: str) -> None:
    # The head has removed it for another limit.
    with contextlib.suppress(FileNotFoundError):
        folder.delete(name)


def _has_run(upload: Upload, folder: Folder) -> bool:
    """Returns whether this attempt has the run, or no attempt has claimed it: a trainer may have another storage
    path."""
    data = folder.read(FENCE)
    claim = Claim.parse(data.decode(errors="replace")) if data else None
    return claim is None or (claim.uid, claim.attempt) == (upload.uid, upload.attempt)
