"""What the tabs of a job's page share."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Protocol

from nicegui import Client, ui
from nicegui.elements.echart import EChart

from railhead.client.ui.charts import Options
from railhead.client.ui.live_job import LiveJob
from railhead.client.ui.page_context import PageContext
from railhead.client.ui.page_source import TrainJobName
from railhead.client.ui.viewing import ANSWER_SECONDS, is_taken

READY_TRIES = 50
READY_SECONDS = 0.1


@dataclass(frozen=True)
class JobContext:
    """One viewer of one job."""

    site: PageContext
    key: TrainJobName
    job: LiveJob
    client: Client


class Tab(Protocol):
    """A tab. It is built when it is opened first, and then runs until the viewer is gone."""

    def build(self) -> None:
        """Adds the tab's parts."""
        ...

    async def run(self) -> None:
        """Keeps them up to date."""
        ...


class Chart:
    """A picture, whose data is sent and not kept."""

    def __init__(self, height: int) -> None:
        self.element: EChart = ui.echart({"series": []}).classes("rh-chart").style(f"height: {height}px")
        self._is_ready = False

    def resize(self, height: int) -> None:
        self.element.style(f"height: {height}px")

    async def show(self, options: Options) -> bool:
        """Draws the picture again from scratch; returns whether the browser has done it."""
        if not self._is_ready and not await self._wait_until_ready():
            return False
        sent = self.element.run_chart_method("setOption", options, {"notMerge": True}, timeout=ANSWER_SECONDS)
        return await is_taken(sent)

    async def _wait_until_ready(self) -> bool:
        """Waits for the chart, which the library makes a moment after the element; returns whether it is there."""
        for _ in range(READY_TRIES):
            try:
                self._is_ready = bool(await self.element.run_chart_method("getWidth"))
            except TimeoutError:
                continue
            if self._is_ready:
                return True
            await asyncio.sleep(READY_SECONDS)
        return False
