"""How the page looks, and the one way by which text of a cluster gets onto it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nicegui import ui

from railhead.contract.text import clean_line, clean_text

# For light and dark alike: each has enough contrast on white and on black.
PHASES: Mapping[str, str] = {
    "Running": "#2e9e5b",
    "Succeeded": "#3f7fd6",
    "Failed": "#d64545",
    "Restarting": "#d98a1f",
    "Starting": "#d98a1f",
    "Pending": "#b7791f",
    "Queued": "#8b6fd0",
    "Suspending": "#7b8794",
    "Suspended": "#7b8794",
    "Lost": "#a61b4a",
    "Stopped": "#7b8794",
}
OTHER_PHASE = "#7b8794"
TEXT = "#8a929c"  # of charts
LINE = "rgba(128,128,128,0.25)"
STYLE = """
:root { --nicegui-default-padding: 0; --nicegui-default-gap: 0.75rem; }
body { font-size: 14px; }
body.body--light { --q-primary: #3949ab !important; }
body.body--dark { --q-primary: #7484e0 !important; }
.rh-full { width: 100%; min-width: 0; }
.rh-page > *, .rh-card > * { max-width: 100%; }
.items-center { align-items: center !important; }
.rh-log .ag-row { border: 0; }
.rh-log .ag-cell, .rh-log .ag-cell-value { white-space: pre; }
body.body--light { background: #f5f6f8; }
body.body--dark { background: #14161a; }
.nicegui-content { padding: 0; width: 100%; }
.rh-header { background: #303f9f; color: #fff; min-height: 48px; padding: 4px 16px; gap: 12px; flex-wrap: nowrap; }
.body--dark .rh-header { background: #1f2433; }
.rh-header a, .rh-header .q-btn { color: #fff; text-decoration: none; }
.rh-brand { font-weight: 700; font-size: 16px; letter-spacing: .02em; }
.rh-page { width: 100%; max-width: 1440px; margin: 0 auto; padding: 14px 16px 24px; gap: 12px; }
.rh-card { width: 100%; border-radius: 8px; padding: 14px 16px; gap: 8px; box-shadow: none;
  border: 1px solid #e2e5ea; }
.body--dark .rh-card { border-color: #2b3038; background: #1b1e24; }
.rh-title { font-weight: 600; font-size: 15px; line-height: 1.35; }
.rh-quiet { color: #5d6672; }
.body--dark .rh-quiet { color: #9aa3ae; }
.rh-line { white-space: pre-wrap; overflow-wrap: anywhere; line-height: 1.45; }
.rh-mono { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; font-size: 12.5px; }
.rh-code { white-space: pre; overflow: auto; max-height: 70vh; width: 100%; line-height: 1.45; }
.rh-badge { border-radius: 10px; padding: 1px 9px; color: #fff; font-size: 12px; font-weight: 600;
  white-space: nowrap; line-height: 1.4; }
.rh-facts { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: 3px 16px; width: 100%; }
.rh-columns { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 420px), 1fr)); gap: 12px;
  width: 100%; align-items: start; }
.rh-link { color: #3949ab; text-decoration: none; }
.rh-link:hover { text-decoration: underline; }
.body--dark .rh-link { color: #9fb0ff; }
.rh-link:focus-visible, .rh-header a:focus-visible { outline: 2px solid currentColor; outline-offset: 2px; }
.rh-grid { width: 100%; }
.rh-grid a { color: inherit; font-weight: 600; text-decoration: none; }
.rh-grid a:hover { text-decoration: underline; }
.rh-bar { display: flex; align-items: center; gap: 8px; height: 100%; }
.rh-track { flex: 1; height: 6px; border-radius: 3px; background: rgba(128,128,128,.25); overflow: hidden;
  min-width: 24px; }
.rh-fill { height: 100%; background: #3f7fd6; }
.rh-chart { width: 100%; }
.rh-card.rh-card.rh-warning { border-left: 4px solid #d98a1f; }
.rh-card.rh-card.rh-error { border-left: 4px solid #d64545; }
.rh-card.rh-card.rh-good { border-left: 4px solid #2e9e5b; }
.rh-doc { max-width: 900px; width: 100%; line-height: 1.55; overflow-wrap: break-word; }
.rh-doc h1 { font-size: 24px; line-height: 1.3; margin: 8px 0; }
.rh-doc h2 { font-size: 19px; line-height: 1.3; margin: 18px 0 6px; }
.rh-doc h3 { font-size: 16px; line-height: 1.3; margin: 14px 0 4px; } .rh-doc pre { overflow: auto; padding: 8px; }
.rh-doc table { display: block; overflow: auto; border-collapse: collapse; }
.rh-doc td, .rh-doc th { border: 1px solid rgba(128,128,128,.35); padding: 4px 8px; text-align: left;
  vertical-align: top; }
.rh-doc a { color: #3949ab; } .body--dark .rh-doc a { color: #9fb0ff; }
@media (max-width: 600px) {
  .rh-page { padding: 10px 8px 16px; } .rh-card { padding: 10px 12px; } .rh-wide { display: none; }
}
"""


def show(text: object) -> str:
    """Returns the text on one line, without what could act on a reader: control and bidirectional characters."""
    return clean_line(str(text))


def show_lines(text: object) -> str:
    """Returns the text, each line of it cleaned."""
    return clean_text(str(text))


def label(text: object, classes: str = "") -> ui.label:
    """Adds text of a cluster as text; `classes` is a constant."""
    return ui.label(show_lines(text)).classes(f"rh-line {classes}")


def badge(phase: str) -> ui.label:
    """Adds a job's phase."""
    colour = PHASES.get(phase, OTHER_PHASE)
    return ui.label(show(phase)).classes("rh-badge").style(f"background: {colour}")


def build_facts(facts: Sequence[tuple[str, str]]) -> None:
    """Adds names and values to a grid of class rh-facts; the names are constants."""
    for name, value in facts:
        ui.label(name).classes("rh-quiet")
        label(value)


def doc_link(title: str, page: str) -> None:
    """Adds a link to a page of the documentation, such as how-to/see-why.md#anchor."""
    ui.link(title, f"/docs/{page}", new_tab=True).classes("rh-link")


def card(title: str = "", doc: str = "") -> ui.card:
    """Returns a card with a title, and a link to the page of the documentation that explains it."""
    with ui.card().classes("rh-card") as made, ui.row().classes("rh-full items-center justify-between"):
        if title:
            ui.label(title).classes("rh-title")
        if doc:
            doc_link("What is this?", doc)
    return made
