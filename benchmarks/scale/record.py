"""The figures of one run as JSON, with the machine and the versions."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from railhead._version import __version__
from railhead.local.control_plane.binaries import ETCD_VERSION, KUBERNETES_VERSION

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


@dataclass(frozen=True)
class Machine:
    """What the figures depend on. `load`: the load average before the run."""

    processors: int
    memory_gib: float
    load: float
    python: str
    kubernetes: str
    etcd: str
    railhead: str

    @staticmethod
    def read() -> Machine:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
        versions = (platform.python_version(), KUBERNETES_VERSION, ETCD_VERSION, __version__)
        return Machine(os.cpu_count() or 1, round(memory, 1), round(os.getloadavg()[0], 1), *versions)

    def describe(self) -> str:
        return (
            f"{self.processors} processors, {self.memory_gib:g} GiB, load average {self.load:g} before; "
            f"Python {self.python}, Kubernetes {self.kubernetes}, etcd {self.etcd}, Railhead {self.railhead}"
        )


Turn = dict[str, object]


@dataclass(frozen=True)
class Record:
    """One run: the figures of all turns of one mode. `machine`: in one line."""

    mode: str
    machine: str
    turns: list[Turn]


def write_record(path: Path, *, mode: str, machine: Machine, turns: Sequence[DataclassInstance]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    record = {"mode": mode, "machine": asdict(machine), "turns": [asdict(each) for each in turns]}
    path.write_text(json.dumps(record, indent=1) + "\n")


def read_record(path: Path) -> Record:
    values = json.loads(path.read_text())
    return Record(str(values["mode"]), Machine(**values["machine"]).describe(), list(values["turns"]))
