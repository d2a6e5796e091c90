"""The curves of all metrics, of this run and of others over it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from nicegui import ui
from nicegui.element import Element
from nicegui.events import ValueChangeEventArguments

from railhead.client.run.curve_points import AXES, Axis, place_points
from railhead.client.run.curves import Curve
from railhead.client.ui.charts import RunLine, draw_curves
from railhead.client.ui.job_context import Chart, JobContext
from railhead.client.ui.live_run import LiveRun
from railhead.client.ui.look import card, label, show
from railhead.client.ui.page_source import TrainJobName
from railhead.client.ui.run_prompt import RunState, build_prompt, read_state
from railhead.client.ui.viewing import Region
from railhead.together import run_together

FIRST_METRICS = 6  # that are drawn before the viewer chooses
MOST_METRICS = 24  # that are drawn
MOST_OTHERS = 7  # runs over this one
MOST_POINTS = 1000  # of a curve
CHART_PIXELS = 240
AXIS_TITLES = {"step": "Step", "elapsed": "Time since the start", "clock": "Clock"}


@dataclass
class Choices:
    """What a viewer wants to see."""

    metrics: tuple[str, ...] = ()
    axis: Axis = "step"
    weight: float = 0.0
    is_logarithmic: bool = False


class CurvesTab:
    """One viewer's curves."""

    def __init__(self, context: JobContext) -> None:
        self._context = context
        self._choices = Choices()
        self._known: tuple[str, ...] = ()
        self._runs: dict[TrainJobName, LiveRun] = {}
        self._charts: dict[str, tuple[Element, Chart]] = {}
        self._is_stale = asyncio.Event()

    def build(self) -> None:
        with card("Curves", "how-to/read-metrics.md"):
            with ui.row().classes("rh-full items-center").style("gap: 10px 18px"):
                self._metrics = ui.select([], label="Metrics", multiple=True, on_change=self._choose_metrics)
                self._metrics.props("dense outlined use-chips").style("min-width: min(100%, 260px)")
                self._others = ui.select([], label="Compare with", multiple=True, on_change=self._choose_others)
                self._others.props("dense outlined use-chips").style("min-width: min(100%, 260px)")
                axis = ui.toggle({axis: AXIS_TITLES[axis] for axis in AXES}, value="step", on_change=self._choose_axis)
                axis.props("dense no-caps")
                with ui.row().classes("items-center no-wrap").style("gap: 10px"):
                    ui.label("Smoothing")
                    slider = ui.slider(min=0, max=0.99, step=0.01, value=0, on_change=self._choose_weight)
                    slider.props('label throttle=300 aria-label="Smoothing"').style("width: 140px")
                ui.switch("Logarithmic", on_change=self._choose_scale)
            self._prompts = ui.column().classes("rh-full")
        self._area = ui.element("div").classes("rh-columns").style("margin-top: 12px")

    async def run(self) -> None:
        """Draws after each reading, and after each choice of the viewer."""
        runs = self._context.site.runs
        self._runs[self._context.key] = runs.acquire(self._context.key)
        prompt = Region(self._prompts, self._build_prompt)
        try:
            while True:
                seen = {key: run.version for key, run in self._runs.items()}
                self._is_stale.clear()
                prompt.show(tuple(read_state(run) for run in self._runs.values()))
                self._offer()
                await self._draw()
                waits = [run.wait(seen[key]) for key, run in self._runs.items() if key in seen]
                await run_together(self._is_stale.wait(), *waits)
        finally:
            for key in self._runs:
                runs.release(key)

    def _build_prompt(self, states: Sequence[RunState]) -> None:
        for state, (key, run) in zip(states, self._runs.items(), strict=True):
            if len(states) > 1 and (state.problem or state.is_reading):
                label(f"{key.name}:", "rh-title")
            build_prompt(state, run.allow_reader)

    def _offer(self) -> None:
        """Puts what there is into the lists of choices."""
        known = tuple(dict.fromkeys(curve.metric for run in self._runs.values() for curve in _read(run)))
        if known != self._known:
            self._known = known
            if not self._choices.metrics:
                self._choices.metrics = known[:FIRST_METRICS]
            chosen = [index for index, metric in enumerate(known) if metric in self._choices.metrics]
            self._metrics.set_options({index: show(metric) for index, metric in enumerate(known)}, value=chosen)
        own = self._context.key
        others = [str(key) for key in self._context.site.jobs.list_keys() if key != own]
        if others != self._others.options:
            self._others.set_options(others, value=[str(key) for key in self._runs if key != own])

    async def _draw(self) -> None:
        wanted = [metric for metric in self._known if metric in self._choices.metrics][:MOST_METRICS]
        for metric in [each for each in self._charts if each not in wanted]:
            self._charts.pop(metric)[0].delete()
        for metric in wanted:
            if metric not in self._charts:
                self._charts[metric] = self._add_chart(metric)
            lines = [line for key, run in self._runs.items() for line in self._place(key, _read(run), metric)]
            options = draw_curves(lines, self._choices.axis, is_logarithmic=self._choices.is_logarithmic)
            await self._charts[metric][1].show(options)

    def _add_chart(self, metric: str) -> tuple[Element, Chart]:
        with self._area, ui.card().classes("rh-card") as box:
            label(metric, "rh-title")
            return box, Chart(CHART_PIXELS)

    def _place(self, key: TrainJobName, curves: Sequence[Curve], metric: str) -> list[RunLine]:
        choices = self._choices
        return [
            RunLine(key.name, tuple(place_points(curve, choices.axis, weight=choices.weight, most=MOST_POINTS)))
            for curve in curves
            if curve.metric == metric
        ]

    def _choose_metrics(self, event: ValueChangeEventArguments[list[int]]) -> None:
        self._choices.metrics = tuple(self._known[index] for index in event.value if 0 <= index < len(self._known))
        self._is_stale.set()

    def _choose_others(self, event: ValueChangeEventArguments[list[str]]) -> None:
        own = self._context.key
        listed = {str(key): key for key in self._context.site.jobs.list_keys()}
        wanted = [listed[name] for name in event.value if name in listed][:MOST_OTHERS]
        for key in [key for key in self._runs if key not in (own, *wanted)]:
            del self._runs[key]
            self._context.site.runs.release(key)
        for key in wanted:
            if key not in self._runs:
                self._runs[key] = self._context.site.runs.acquire(key)
        self._is_stale.set()

    def _choose_axis(self, event: ValueChangeEventArguments[Axis]) -> None:
        self._choices.axis = next((axis for axis in AXES if axis == event.value), "step")
        self._is_stale.set()

    def _choose_weight(self, event: ValueChangeEventArguments[float | None]) -> None:
        self._choices.weight = min(0.99, max(0.0, float(event.value or 0)))
        self._is_stale.set()

    def _choose_scale(self, event: ValueChangeEventArguments[bool | None]) -> None:
        self._choices.is_logarithmic = bool(event.value)
        self._is_stale.set()


def _read(run: LiveRun) -> Sequence[Curve]:
    if run.contents is None:
        return ()
    return run.contents.curves
