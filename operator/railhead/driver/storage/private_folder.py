"""A folder of ours in the run's folder that only the head which has the run writes; on a path as in `PathFolder`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Optional, Union

from railhead.contract.run_folder import OWN_FOLDER
from railhead.driver.storage.path_folder import PathFolder
from railhead.driver.storage.run_folder import RunFolder


@dataclass(frozen=True)
class PrivateFolder:
    """The folder of this name in `.railhead`. May block for as long as the storage does, and raises OSError.

    `check` is the fence: it raises when the run belongs to another head, before each write.
    """

    run: RunFolder
    name: str
    check: Callable[[], None]

    def write(self, name: str, data: bytes) -> None:
        """Creates or replaces a file, atomically where the storage can."""
        self.check()
        self._files.write(f"{self._own}/{name}", data)

    def read(self, name: str) -> Optional[bytes]:
        """Returns None when there is no such file."""
        return self._files.read(f"{self._own}/{name}")

    def list_sizes(self) -> dict[str, int]:
        """Returns the bytes of each file."""
        return {file.name: file.size for file in self._files.list_files(self._own)}

    @property
    def _own(self) -> str:
        return f"{OWN_FOLDER}/{self.name}"

    @property
    def _files(self) -> Union[PathFolder, RunFolder]:
        return PathFolder(self.run.path) if self.run.filesystem.type_name == "local" else self.run
