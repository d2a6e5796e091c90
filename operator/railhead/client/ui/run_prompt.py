"""What a tab shows while the files of the run cannot be read, and the question before a reader's pod is started."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from nicegui import ui

from railhead.client.ui.live_run import LiveRun
from railhead.client.ui.look import doc_link, label


@dataclass(frozen=True)
class RunState:
    """How the reading of a run stands."""

    problem: str
    needs_reader: bool
    is_reading: bool
    remark: str
    has_contents: bool
    gaps: tuple[str, ...]


def read_state(run: LiveRun) -> RunState:
    """Returns the state of the reading, which a Region compares."""
    is_first = run.is_reading and run.contents is None
    gaps = run.contents.gaps if run.contents else ()
    return RunState(run.problem, run.needs_reader, is_first, run.remark, run.contents is not None, gaps)


def build_prompt(state: RunState, allow_reader: Callable[[], None]) -> None:
    """Adds what there is to say."""
    if state.is_reading or state.remark:
        with ui.row().classes("items-center no-wrap"):
            ui.spinner(size="20px")
            label(state.remark or "Reading the run's folder")
    elif state.needs_reader:
        label(state.problem)

        def ask() -> None:
            ask_for_reader(allow_reader)

        ui.button("Start a reader's pod", on_click=ask).props("no-caps unelevated")
        doc_link("What is a reader's pod?", "how-to/read-metrics.md")
    elif state.problem:
        label(state.problem, "text-negative")
    elif not state.has_contents:
        ui.label("The job has not begun an attempt, so its run has no files yet.").classes("rh-quiet")
    for gap in state.gaps:
        label(gap, "rh-quiet")


def ask_for_reader(allow_reader: Callable[[], None]) -> None:
    """Opens the question. A reader's pod is the only thing that this page ever creates."""
    with ui.dialog() as dialog, ui.card():
        ui.label("Start a pod in the cluster?").classes("rh-title")
        ui.label(
            "It runs the job's image with 250m CPU and 256Mi of memory, mounts the run's volume read-only, has no "
            "network, and is deleted as soon as the files are read."
        ).style("max-width: 420px")

        def agree() -> None:
            dialog.close()
            allow_reader()

        with ui.row().classes("rh-full justify-end"):
            ui.button("Cancel", on_click=dialog.close).props("flat no-caps")
            ui.button("Start the pod", on_click=agree).props("no-caps unelevated")
    dialog.open()
