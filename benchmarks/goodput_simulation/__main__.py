"""`make bench-goodput-simulated`: 30 days of one job in simulated time, interrupted as often as published trainings.

The same interruptions, by several seeds, under Railhead's own rules with its default limits, with new pods each time,
and with a start from zero each time; with checkpoints at Railhead's own pace and every 30 minutes; on a cluster that
takes a node with a faulty GPU out of service, and on one that does not.
Prints the goodput and where the rest of the time went, and plots the goodput by the number of GPUs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from statistics import mean

from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.goodput_simulation.cluster import Cluster
from benchmarks.goodput_simulation.faults import LLAMA_3, META, plan_faults
from benchmarks.goodput_simulation.rules import NewPods, Railhead, Rules
from benchmarks.goodput_simulation.run import FAILED, SECONDS, Run
from benchmarks.goodput_simulation.saves import Saves, SaveTimes
from railhead.training._save_pace import Every

GPUS_PER_POD = 8
RATES = {"Meta": META, "Llama 3": LLAMA_3}
SIZES = {"Meta": (512, 1024, 2048, 4096), "Llama 3": (512, 1024, 2048, 4096, 8192, 16_384)}  # of the plot
LARGEST = 16_384  # of the table at Meta's rate, for Railhead alone: the other ways would take too long to simulate
TABLE = (("Meta", 1024), ("Llama 3", LARGEST))
HALF_AN_HOUR = 1800.0
PLOT = Path("docs/assets/goodput-simulated.svg")
HEADER = (
    "| GPUs, rate | way | goodput, % | interruptions | saving, h | retrained, h | hanging, h | starting, h | failed |"
)
STARTING = ("starting", "restoring", "podsPending")


@dataclass(frozen=True)
class Way:
    """How a job saves, and how it continues after interruptions."""

    name: str
    rules: Callable[[int], Rules]
    every: Every = "auto"
    resumes: bool = True
    takes_out: bool = True


RAILHEAD = partial(Railhead, limits={})
WAYS = (
    Way("Railhead", RAILHEAD),
    Way("Railhead, faulty nodes stay in service", RAILHEAD, takes_out=False),
    Way("Railhead, a checkpoint every 30 minutes", RAILHEAD, every=HALF_AN_HOUR),
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

    @property
    def has_failed(self) -> bool:
        return self.spent.get(FAILED, 0.0) > 0


def simulate(way: Way, rate: float, gpus: int, seed: int, times: SaveTimes) -> Result:
    """`rate`: interruptions per second and GPU."""
    slots = gpus // GPUS_PER_POD
    faults = plan_faults(rate * gpus, slots, seconds=SECONDS, chance=Random(seed))
    chance = Random(seed + 1)
    cluster = Cluster(slots, way.takes_out, chance)
    saves = Saves(way.every, times, gpus=gpus)
    run = Run(way.rules(slots), cluster, faults, chance, saves, load=times.load, resumes=way.resumes)
    return Result(run.play(), run.losses)


def write_row(rate: str, gpus: int, way: Way, results: Sequence[Result]) -> str:
    """Returns a row of the table: means, and of the goodput also the lowest and the highest."""
    goodputs = [100 * result.goodput for result in results]
    shares = f"{mean(goodputs):.2f} ({min(goodputs):.2f} to {max(goodputs):.2f})"
    losses = mean(result.losses for result in results)
    groups = (("checkpointing",), ("retrained",), ("hanging",), STARTING)
    hours = [
        mean(sum(result.spent.get(cause, 0.0) for cause in group) for result in results) / 3600 for group in groups
    ]
    lost = " | ".join(f"{value:.1f}" for value in hours)
    failed = sum(result.has_failed for result in results)
    return f"| {gpus:,}, {rate} | {way.name} | {shares} | {losses:.1f} | {lost} | {failed} |"


def draw(found: Mapping[tuple[str, str, int], Sequence[Result]], path: Path) -> None:
    """Plots the mean goodput by the number of GPUs, and the range of the seeds, for each rate."""
    rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "railhead"})  # text stays text, the same bytes each time
    figure = Figure(figsize=(10, 5.4), layout="constrained")
    for axes, rate in zip(figure.subplots(1, len(RATES), sharey=True), RATES, strict=True):
        draw_rate(axes, rate, found)
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})


def does_resume(way: Way) -> bool:
    """Whether its line is in the plot: the others are below it at any size."""
    return way.resumes


def draw_rate(axes: Axes, rate: str, found: Mapping[tuple[str, str, int], Sequence[Result]]) -> None:
    for way in filter(does_resume, WAYS):
        shares = [[100 * result.goodput for result in found[rate, way.name, gpus]] for gpus in SIZES[rate]]
        axes.plot(SIZES[rate], [mean(each) for each in shares], marker="o", markersize=3, label=way.name)
        axes.fill_between(SIZES[rate], [min(each) for each in shares], [max(each) for each in shares], alpha=0.15)
    axes.set(title=f"interrupted at {rate}'s rate", xlabel="GPUs", ylabel="goodput, %", xscale="log", ylim=(60, 100))
    axes.set_xticks(SIZES[rate], [str(size) for size in SIZES[rate]])
    axes.minorticks_off()
    axes.grid(visible=True, alpha=0.3)


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench-goodput-simulated", description=__doc__)
    parser.add_argument("--seeds", type=int, default=10, help="number of jobs of each kind (default: %(default)s)")
    parser.add_argument(
        "--stall", type=float, default=SaveTimes.stall, help="s that a save stops training (%(default)s)"
    )
    parser.add_argument("--write", type=float, default=SaveTimes.write, help="s until a save is written (%(default)s)")
    parser.add_argument("--load", type=float, default=SaveTimes.load, help="s to read a checkpoint (%(default)s)")
    parser.add_argument("--plot", type=Path, default=PLOT, help="SVG file (default: %(default)s)")
    options = parser.parse_args()
    if options.seeds < 1:
        parser.error("--seeds must be at least 1")
    times = SaveTimes(options.stall, options.write, options.load)
    found = {
        (rate, way.name, gpus): [simulate(way, RATES[rate], gpus, seed, times) for seed in range(options.seeds)]
        for rate in RATES
        for gpus in SIZES[rate]
        for way in WAYS
    }
    print(HEADER)
    print("|" + "---|" * (HEADER.count("|") - 1))
    for rate, gpus in TABLE:
        for way in WAYS:
            print(write_row(rate, gpus, way, found[rate, way.name, gpus]))
    for way in WAYS:
        if way.rules is RAILHEAD:
            results = [simulate(way, META, LARGEST, seed, times) for seed in range(options.seeds)]
            print(write_row("Meta", LARGEST, way, results))
    draw(found, options.plot)
    print(f"\nplot: {options.plot}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
