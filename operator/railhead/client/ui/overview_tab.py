"""What a job does now, and why; where its time went."""

from __future__ import annotations

from collections.abc import Sequence

from nicegui import ui

from railhead.client.cluster.job_snapshot import JobSnapshot
from railhead.client.explain.attempt_spans import Span, list_spans
from railhead.client.explain.lost_time import SpentTime, divide_time
from railhead.client.explain.past_job import PastSnapshot, summarize_past
from railhead.client.explain.summary import Fact, JobScreen, summarize
from railhead.client.explain.why import Finding
from railhead.client.ui.charts import CAUSES, KINDS, describe_span, draw_goodput, draw_timeline, measure_timeline
from railhead.client.ui.job_context import Chart, JobContext
from railhead.client.ui.look import card, doc_link, label, show
from railhead.client.ui.viewing import Region
from railhead.contract.times import format_duration, format_time
from railhead.together import run_together

MOST_SPANS = 24  # in the list below the picture
GOOD = ("Training", "Succeeded")  # reasons of findings that need no attention
LEFT_OUT = ("Phase",)  # facts that stand above the tabs


class OverviewTab:
    """One viewer's overview."""

    def __init__(self, context: JobContext) -> None:
        self._context = context
        self._job = context.job

    def build(self) -> None:
        with ui.column().classes("rh-full").style("gap: 12px"):
            self._findings = Region(ui.column().classes("rh-full").style("gap: 12px"), self._build_findings)
            self._details = ui.column().classes("rh-full").style("gap: 12px")
            with self._details, card("Timeline of attempts", "concepts/attempts.md"):
                self._timeline = Chart(80)
                with ui.row().style("gap: 4px 14px"):
                    for title, colour in KINDS.values():
                        _dot(title, colour)
                self._spans = Region(ui.column().classes("rh-full").style("gap: 2px"), self._build_spans)
            with self._details, ui.element("div").classes("rh-columns"):
                with card("Where the time went", "concepts/goodput.md"):
                    self._goodput = Chart(34)
                    self._parts = Region(ui.element("div").classes("rh-full"), self._build_parts)
                with card("Facts", "reference/status.md"):
                    self._facts = Region(ui.element("div").classes("rh-facts"), self._build_facts)

    async def run(self) -> None:
        """Draws after each change, and again with time for what grows."""
        run = self._context.site.runs.acquire(self._context.key)
        try:
            while True:
                seen = self._job.version
                seen_run = run.version
                # Nothing is known of a job that has never been.
                self._details.set_visibility(self._job.snapshot is not None or not self._job.is_gone)
                if self._job.snapshot is not None:
                    journal = run.contents.journal if run.contents else ()
                    snapshot = self._job.snapshot
                    screen = _summarize(snapshot)
                    spans = list_spans(snapshot, journal)
                    parts = divide_time(snapshot.status)
                    self._findings.show((screen.findings, screen.notes))
                    self._facts.show(tuple(fact for fact in screen.facts if fact.name not in LEFT_OUT))
                    self._spans.show(tuple(spans))
                    self._parts.show(tuple(parts))
                    self._timeline.resize(measure_timeline(spans))
                    await self._timeline.show(draw_timeline(spans))
                    await self._goodput.show(draw_goodput(parts))
                await run_together(self._job.wait(seen), run.wait(seen_run))
        finally:
            self._context.site.runs.release(self._context.key)

    def _build_findings(self, found: tuple[Sequence[Finding], Sequence[str]]) -> None:
        findings, notes = found
        for number, finding in enumerate(findings):
            mood = "rh-warning"
            if finding.reason in GOOD:
                mood = "rh-good"
            elif number == 0 and self._job.snapshot is not None and self._job.snapshot.status.phase == "Failed":
                mood = "rh-error"
            with ui.card().classes(f"rh-card {mood}"):
                with ui.row().classes("rh-full items-center justify-between"):
                    since = f"  since {finding.since}" if finding.since else ""
                    label(f"{finding.reason}{since}", "rh-title")
                    doc_link("What is this?", finding.doc)
                label(finding.cause)
                if finding.message:
                    label(finding.message, "rh-mono rh-quiet")
                label(f"What to do: {finding.remedy}")
        for note in notes:
            label(note, "rh-quiet")

    def _build_spans(self, spans: Sequence[Span]) -> None:
        if not spans:
            ui.label("Nothing is known of any attempt yet.").classes("rh-quiet")
        told = [span for span in spans if span.kind != "training" or span.is_open or span.cause]
        if len(told) > MOST_SPANS:
            ui.label(f"The last {MOST_SPANS} of {len(told)}:").classes("rh-quiet")
        for span in told[-MOST_SPANS:]:
            with ui.row().classes("rh-full no-wrap").style("gap: 8px"):
                attempt = f"attempt {span.attempt}" if span.attempt else "before"
                ui.label(format_time(span.begin)).classes("rh-mono rh-quiet rh-wide")
                ui.label(attempt).classes("rh-quiet").style("white-space: nowrap")
                label(describe_span(span))

    def _build_parts(self, parts: Sequence[SpentTime]) -> None:
        if not parts:
            ui.label("No time is counted yet.").classes("rh-quiet")
        for part in parts:
            with ui.row().classes("rh-full items-center justify-between no-wrap"):
                _dot(part.title, CAUSES[part.cause])
                ui.label(f"{format_duration(part.seconds)}, {part.share:.1%}").style("white-space: nowrap")

    def _build_facts(self, facts: Sequence[Fact]) -> None:
        for fact in facts:
            ui.label(show(fact.name)).classes("rh-quiet")
            label(fact.value)


def _summarize(snapshot: JobSnapshot) -> JobScreen:
    if isinstance(snapshot, PastSnapshot):
        return summarize_past(snapshot)
    return summarize(snapshot)


def _dot(title: str, colour: str) -> None:
    """Adds a row of the legend. `colour` is a constant."""
    with ui.row().classes("items-center no-wrap").style("gap: 6px"):
        ui.element("span").style(f"width: 10px; height: 10px; border-radius: 3px; background: {colour}")
        ui.label(title)
