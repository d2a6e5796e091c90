"""`make bench-goodput-simulated`: 30 days of one job in simulated time, interrupted as often as Llama 3's training.

The same interruptions, by several seeds, under Railhead's own rules, with new pods each time, and with a start from
zero each time; once on a cluster that takes a node with a faulty GPU out of service, and once on one that does not.
Prints the goodput and where the rest of the time went, and plots the goodput by the number of GPUs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from random import Random
from statistics import mean

from matplotlib import rcParams
from matplotlib.figure import Figure

from benchmarks.goodput_simulation.cluster import Cluster
from benchmarks.goodput_simulation.faults import plan_faults
from benchmarks.goodput_simulation.rules import NewPods, Railhead, Rules
from benchmarks.goodput_simulation.run import FAILED, SECONDS, Run

GPUS_PER_POD = 8
SIZES = (512, 1024, 2048, 4096, 8192, 16_384)
TABLE_SIZES = (512, 16_384)
PLOT = Path("docs/assets/goodput-simulated.svg")


@dataclass(frozen=True)
class Way:
    """How a job continues after interruptions."""

    name: str
    rules: Callable[[int], Rules]
    resumes: bool = True
    takes_out: bool = True


RAISED = {"backoffLimit": 100, "noProgressLimit": 100}
DEFAULTS = Way("Railhead, default limits", partial(Railhead, limits={}))
WAYS = (
    Way("Railhead", partial(Railhead, limits=RAISED)),
    Way("Railhead, faulty nodes stay in service", partial(Railhead, limits=RAISED), takes_out=False),
    Way("new pods each time", lambda slots: NewPods()),
    Way("new pods each time, faulty nodes stay in service", lambda slots: NewPods(), takes_out=False),
    Way("start again from zero", lambda slots: NewPods(), resumes=False),
)


@dataclass(frozen=True)
class Result:
    """One job: its seconds by cause, and how often it was interrupted."""

    spent: Mapping[str, float]
    losses: int

    @property
    def goodput(self) -> float:
        """Returns the share of productive time, 0 to 1."""
        return self.spent.get("productive", 0.0) / SECONDS


def simulate(way: Way, gpus: int, seed: int) -> Result:
    slots = gpus // GPUS_PER_POD
    faults = plan_faults(gpus, slots, seconds=SECONDS, chance=Random(seed))
    chance = Random(seed + 1)
    run = Run(way.rules(slots), Cluster(slots, way.takes_out, chance), faults, chance, resumes=way.resumes)
    return Result(run.play(), run.losses)


def write_row(way: Way, gpus: int, results: Sequence[Result]) -> str:
    """Returns a row of the table: means, and of the goodput also the lowest and the highest."""
    goodputs = [100 * result.goodput for result in results]
    shares = f"{mean(goodputs):.2f} ({min(goodputs):.2f} to {max(goodputs):.2f})"
    hours = [mean(result.spent.get(cause, 0.0) for result in results) / 3600 for cause in ("retrained", "hanging")]
    starting = [
        sum(result.spent.get(cause, 0.0) for cause in ("starting", "restoring", "podsPending")) for result in results
    ]
    lost = " | ".join(f"{value:.1f}" for value in (*hours, mean(starting) / 3600))
    return f"| {gpus} | {way.name} | {shares} | {mean(result.losses for result in results):.1f} | {lost} |"


def draw(found: Mapping[tuple[str, int], Sequence[Result]], path: Path) -> None:
    """Plots the mean goodput by the number of GPUs, and the range of the seeds."""
    rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "railhead"})  # text stays text, the same bytes each time
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    for way in WAYS:
        shares = [[100 * result.goodput for result in found[way.name, gpus]] for gpus in SIZES]
        axes.plot(SIZES, [mean(each) for each in shares], marker="o", markersize=3, label=way.name)
        axes.fill_between(SIZES, [min(each) for each in shares], [max(each) for each in shares], alpha=0.15)
    axes.set(xlabel="GPUs", ylabel="goodput, %", xscale="log", ylim=(0, 100))
    axes.set_xticks(SIZES, [str(size) for size in SIZES])
    axes.minorticks_off()
    axes.grid(visible=True, alpha=0.3)
    axes.legend(fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench-goodput-simulated", description=__doc__)
    parser.add_argument("--seeds", type=int, default=10, help="number of jobs of each kind (default: %(default)s)")
    parser.add_argument("--plot", type=Path, default=PLOT, help="SVG file (default: %(default)s)")
    options = parser.parse_args()
    if options.seeds < 1:
        parser.error("--seeds must be at least 1")
    found = {
        (way.name, gpus): [simulate(way, gpus, seed) for seed in range(options.seeds)] for gpus in SIZES for way in WAYS
    }
    print("| GPUs | after an interruption | goodput, % | interruptions | retrained, h | hanging, h | starting, h |")
    print("|---|---|---|---|---|---|---|")
    for gpus in TABLE_SIZES:
        for way in WAYS:
            print(write_row(way, gpus, found[way.name, gpus]))
    for way in (DEFAULTS, replace(DEFAULTS, name="the same, faulty nodes stay in service", takes_out=False)):
        for gpus in TABLE_SIZES:
            failed = sum(simulate(way, gpus, seed).spent.get(FAILED, 0.0) > 0 for seed in range(options.seeds))
            print(f"{way.name}, {gpus} GPUs: {failed} of {options.seeds} jobs fail")
    draw(found, options.plot)
    print(f"\nplot: {options.plot}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
