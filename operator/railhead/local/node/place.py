"""What the node assigns to a pod."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Place:
    """Folder, addresses and GPUs of one pod."""

    folder: Path
    address: str
    node_address: str
    hosts_file: Path
    gpus: tuple[int, ...]
    server: str = ""
