"""Interruptions at published rates. Pure.

Llama 3's: The Llama 3 Herd of Models (arXiv 2407.21783), section 3.3.4, table 5: 419 unexpected interruptions in 54
days on 16,384 GPUs. Planned ones are left out. What fails is by this table at any rate.

Meta's: Revisiting Reliability in Large-Scale Machine Learning Research Clusters (arXiv 2410.21680): jobs on 1,024 GPUs
are interrupted every 7.9 hours. Here the rate grows in proportion to the GPUs; the paper expects fewer on 16,384.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from random import Random

DAY = 86_400.0
HEAD = -1  # instead of a worker pod's slot


class Kind(Enum):
    """What fails, as far as it matters for what follows."""

    GPU = "GPU"
    HOST = "host"
    SOFTWARE = "software"
    NETWORK = "network"
    HANG = "hang"


ROWS: Mapping[str, tuple[Kind, int]] = {
    "Faulty GPU": (Kind.GPU, 148),
    "GPU HBM3 Memory": (Kind.GPU, 72),
    "Software Bug": (Kind.SOFTWARE, 54),
    "Network Switch/Cable": (Kind.NETWORK, 35),
    "Host Maintenance": (Kind.HOST, 32),
    "GPU SRAM Memory": (Kind.GPU, 19),
    "GPU System Processor": (Kind.GPU, 17),
    "NIC": (Kind.HOST, 7),
    "NCCL Watchdog Timeouts": (Kind.HANG, 7),
    "Silent Data Corruption": (Kind.GPU, 6),
    "GPU Thermal Interface + Sensor": (Kind.GPU, 6),
    "SSD": (Kind.HOST, 3),
    "Power Supply": (Kind.HOST, 3),
    "Server Chassis": (Kind.HOST, 2),
    "IO Expansion Board": (Kind.HOST, 2),
    "Dependency": (Kind.SOFTWARE, 2),
    "CPU": (Kind.HOST, 2),
    "System Memory": (Kind.HOST, 2),
}
INTERRUPTIONS = sum(count for _, count in ROWS.values())


@dataclass(frozen=True)
class Fault:
    """One interruption, `at` seconds from the start, in the pod of this slot."""

    at: float
    kind: Kind
    slot: int


# Interruptions of a job, per second and GPU.
LLAMA_3 = INTERRUPTIONS / (54 * DAY * 16_384)
META = 1 / (7.9 * 3600 * 1024)


def plan_faults(rate: float, slots: int, *, seconds: float, chance: Random) -> list[Fault]:
    """Returns the interruptions of a job with `slots` worker pods, `rate` per second: a Poisson process.

    Any pod's host may fail, that of the head too.
    """
    kinds, counts = zip(*ROWS.values(), strict=True)
    faults: list[Fault] = []
    at = chance.expovariate(rate)
    while at < seconds:
        [kind] = chance.choices(kinds, counts)
        slot = chance.randrange(HEAD if kind is Kind.HOST else 0, slots)
        faults.append(Fault(at, kind, slot))
        at += chance.expovariate(rate)
    return faults
