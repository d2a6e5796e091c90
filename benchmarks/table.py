"""The output of `make bench-start`: the milestones of each way of starting, and the verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from benchmarks.milestones import ORDER
from benchmarks.run import Run

LAG_BOUND = 3.0  # commits of one job are written every 2 s at most


def describe_milestones(applied: Sequence[Run], by_hand: Sequence[Run]) -> list[str]:
    """A line for each milestone: medians of the seconds since the start, and since the line before."""
    columns = [_median_milestones(applied), _median_milestones(by_hand)]
    lines = [
        f"{'seconds since the start (and since the line before)':52}{'kubectl apply':>18}{'by hand':>18}{'behind':>9}"
    ]
    before = [0.0, 0.0]
    for mark in ORDER:
        cells = []
        for side, column in enumerate(columns):
            at = column.get(mark)
            cells.append(f"{at:9.2f} ({at - before[side]:+6.2f})" if at is not None else f"{'-':>18}")
            before[side] = before[side] if at is None else at
        gap = f"{columns[0][mark] - columns[1][mark]:+9.2f}" if all(mark in c for c in columns) else ""
        lines.append(f"{mark:52}{''.join(cells)}{gap}")
    return lines


def _median_milestones(runs: Sequence[Run]) -> dict[str, float]:
    return {mark: median(run.milestones[mark] for run in runs) for mark in ORDER if mark in runs[0].milestones}


def describe_run(run: Run, *, ours: float, parts: Mapping[str, float]) -> str:
    """One run, and who used the processors meanwhile, in CPU seconds."""
    listed = ", ".join(f"{name} {seconds:.2f}" for name, seconds in parts.items() if seconds >= 0.01)
    others = f"others {100 * run.share_of_others:.0f} %" + (": does not count" if run.is_disturbed else "")
    return (
        f"{run.seconds:.2f} s, accuracy {run.accuracy:.4f}; {others}\n"
        f"{'':11}processors: {ours:.1f} s, of which {sum(parts.values()):.2f} by the session ({listed})"
    )


def describe_verdict(applied: Sequence[Run], by_hand: Sequence[Run], *, bound: float) -> tuple[bool, list[str]]:
    """Whether the ratio of the medians is within the bound, and every report arrived in time."""
    mine, theirs = median(r.seconds for r in applied), median(r.seconds for r in by_hand)
    ratio, ratio_of_best = mine / theirs, min(r.seconds for r in applied) / min(r.seconds for r in by_hand)
    lags = [lag for run in applied for lag in run.report_lags]
    is_within = ratio <= bound and max(lags) <= LAG_BOUND
    lines = [
        f"kubectl apply to Succeeded: median {mine:.2f} s of {_spread(applied)}",
        f"by hand:                    median {theirs:.2f} s of {_spread(by_hand)}",
        f"ratio of the medians {ratio:.3f} (of the best runs {ratio_of_best:.3f}), "
        f"which {'is within' if ratio <= bound else 'EXCEEDS'} the bound of {bound:g}",
        f"a report's checkpoint is in the status after {median(lags):.2f} s (median of {len(lags)}), "
        f"{max(lags):.2f} s at most, which {'is within' if max(lags) <= LAG_BOUND else 'EXCEEDS'} {LAG_BOUND:g} s",
    ]
    if any(run.is_disturbed for run in (*applied, *by_hand)):
        lines.append("other processes used this machine all the time: the figures are unreliable")
    return is_within, lines


def describe_plain(applied: Sequence[Run], plain: Sequence[Run]) -> str:
    mine, theirs = median(r.seconds for r in applied), median(r.seconds for r in plain)
    return f"by hand, Ray's defaults:    median {theirs:.2f} s of {_spread(plain)}, ratio {mine / theirs:.3f}"


def _spread(runs: Sequence[Run]) -> str:
    return f"{len(runs)} ({', '.join(f'{run.seconds:.2f}' for run in runs)})"
