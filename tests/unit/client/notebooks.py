"""Cells as a notebook's kernel runs them."""

from __future__ import annotations

import linecache
from typing import Any


class Notebook:
    """Runs cells in one namespace, each from a file that only linecache knows."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.files: list[str] = []

    def run(self, cell: str, file: str = "") -> None:
        file = file or f"/tmp/ipykernel_1/{len(self.files)}.py"
        self.files.append(file)
        linecache.cache[file] = (len(cell), None, cell.splitlines(keepends=True), file)
        exec(compile(cell, file, "exec"), self.names)

    def forget(self) -> None:
        for file in self.files:
            linecache.cache.pop(file, None)
