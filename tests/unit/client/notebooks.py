"""Cells as a notebook's kernel runs them."""

from __future__ import annotations

import json
import linecache
from pathlib import Path
from typing import Any

DOCUMENTED = Path(__file__).resolve().parents[3] / "docs" / "how-to" / "notebook.ipynb"


def read_cells() -> list[str]:
    """Returns the code of the notebook of the docs."""
    cells = json.loads(DOCUMENTED.read_text())["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


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
