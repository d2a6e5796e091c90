"""Plots of cost against the number of jobs, as PNG and SVG, from the JSON files of one or several runs.

python -m benchmarks.scale.plots present.json other.json --into build/bench-scale
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from matplotlib.figure import Figure

from benchmarks.scale.record import Record, Turn, read_record

FOLDER = Path("build/bench-scale")
FORMATS = ("png", "svg")


@dataclass(frozen=True)
class Panel:
    """One plot: a field of the turns (a dot leads into one), times a factor, by another field if that is named."""

    title: str
    field: str
    factor: float = 1.0
    per: str = ""

    def read(self, turn: Turn) -> float | None:
        """None for a figure that the turn lacks, such as the memory of the floor."""
        value = _find(turn, self.field)
        if value is None:
            return None
        return value * self.factor / ((_find(turn, self.per) or 1.0) if self.per else 1.0)


PANELS = {
    "bare": (
        Panel("pods created per second", "pods_per_second"),
        Panel("CPU of the operator per pod, ms", "cpu_seconds", 1000, per="pods"),
        Panel("CPU of the API server per pod, ms", "server_cpu_seconds", 1000, per="pods"),
        Panel("RSS, highest, MiB", "rss_peak"),
    ),
    "present": (
        Panel("start until reconciled, s", "start.reconciled"),
        Panel("RSS, highest, MiB", "rss_peak"),
        Panel("CPU while idle, % of one processor", "idle_share", 100),
        Panel("CPU per changed job, ms", "ms_per_job_event"),
    ),
    "reporting": (
        Panel("status writes per second, all jobs", "status_writes"),
        Panel("commit until in the status, p50, s", "lag_p50"),
        Panel("commit until in the status, p99, s", "lag_p99"),
        Panel("CPU of the operator, % of one processor", "cpu_share", 100),
    ),
    "fairness": (
        Panel("pods of a small job, without bad ones, p50, s", "without_p50"),
        Panel("pods of a small job, without bad ones, p99, s", "without_p99"),
        Panel("beside bad jobs, p50, s", "beside_p50"),
        Panel("beside bad jobs, p99, s", "beside_p99"),
    ),
    "cluster": (
        Panel("all pods created after, s", "created"),
        Panel("all pods running after, s", "running"),
        Panel("CPU of the operator per pod, ms", "cpu_seconds", 1000, per="pods"),
        Panel("RSS, highest, MiB", "rss_peak"),
    ),
}


def read_lines(turns: Sequence[Turn], panel: Panel) -> dict[str, list[tuple[float, float]]]:
    """By operator: numbers of jobs with the medians of their turns, in order."""
    found: dict[str, dict[float, list[float]]] = {}
    for turn in turns:
        value, jobs = panel.read(turn), _find(turn, "jobs")
        if value is not None and jobs is not None:
            found.setdefault(str(turn["name"]), {}).setdefault(jobs, []).append(value)
    return {name: [(jobs, median(sizes[jobs])) for jobs in sorted(sizes)] for name, sizes in found.items()}


def draw(records: Sequence[Record], folder: Path) -> list[Path]:
    """One file of each format for each mode. The files."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for mode in dict.fromkeys(record.mode for record in records):
        turns = [turn for record in records if record.mode == mode for turn in record.turns]
        figure = Figure(figsize=(10, 7), layout="constrained")
        figure.suptitle(f"{mode}: {records[0].machine}", fontsize=8)
        for axes, panel in zip(figure.subplots(2, 2).flat, PANELS[mode], strict=True):
            lines = read_lines(turns, panel)
            for name, points in lines.items():
                axes.plot(*zip(*points, strict=True), marker="o", label=name)
            highest = max((value for points in lines.values() for _, value in points), default=0.0)
            axes.set(title=panel.title, xlabel="jobs", xscale="log", ylim=(0, 1.1 * highest or 1.0))
            axes.grid(visible=True, alpha=0.3)
            if lines:
                axes.legend()
        for format_ in FORMATS:
            written.append(folder / f"{mode}.{format_}")
            figure.savefig(written[-1], dpi=120)
    return written


def _find(turn: Turn, field: str) -> float | None:
    value: object = turn
    for part in field.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return float(value) if isinstance(value, int | float) else None


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="bench-scale-plots", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("files", type=Path, nargs="+", help="written by bench-scale --json")
    parser.add_argument("--into", type=Path, default=FOLDER, help="(default: %(default)s)")
    options = parser.parse_args()
    for path in draw([read_record(path) for path in options.files], options.into):
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
