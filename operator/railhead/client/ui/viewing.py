"""What each page of a viewer has: its frame, its tasks, and data that is sent instead of kept."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Generic, TypeVar

from nicegui import Client, ui
from nicegui.awaitable_response import AwaitableResponse
from nicegui.element import Element

from railhead.client.ui.look import show
from railhead.client.ui.page_context import PageContext

log = logging.getLogger(__name__)
ANSWER_SECONDS = 20.0  # for a browser to take what was sent
CHOICES: dict[bool | None, tuple[bool | None, str]] = {
    None: (True, "Dark"),
    True: (False, "Light"),
    False: (None, "As the browser says"),
}
Value = TypeVar("Value")


def build_frame(site: PageContext, title: str) -> ui.column:
    """Adds the header, and returns the column for the rest of the page."""
    ui.page_title(show(title))
    dark = ui.dark_mode(site.is_dark)

    def turn() -> None:
        site.is_dark, words = CHOICES[site.is_dark]
        dark.value = site.is_dark
        ui.notify(words, position="top-right", timeout=1000)

    with ui.row().classes("rh-header rh-full items-center"):
        ui.link("Railhead", "/").classes("rh-brand")
        ui.label(show(site.source.place)).classes("rh-wide")
        ui.space()
        for past in site.storages:
            title = "Past runs"
            if len(site.storages) > 1:
                title += f" {past.number + 1}"
            ui.link(title, f"/runs/{past.number}").tooltip(show(past.source.place))
        ui.link("Documentation", "/docs/index.md", new_tab=True)
        contrast = 'flat dense round aria-label="Light, dark, or as the browser says"'
        ui.button(icon="contrast", on_click=turn, color=None).props(contrast)
    return ui.column().classes("rh-page")


def run_for_viewer(client: Client, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
    """Runs the work until the viewer is gone."""
    task = asyncio.create_task(_run_inside(client, work))

    def cancel() -> None:
        task.cancel()

    client.on_delete(cancel)
    return task


async def _run_inside(client: Client, work: Coroutine[object, object, None]) -> None:
    try:
        await client.connected()
        with client:
            await work
    except Exception as error:
        log.exception("a view has stopped")
        with client:
            what = f"This part of the page has stopped ({type(error).__name__}). Load the page again."
            ui.notify(what, type="negative", timeout=0, close_button="Close")
    finally:
        work.close()


async def is_taken(sent: AwaitableResponse) -> bool:
    """Returns whether the browser has taken what was sent. Who waits for that never has more than one message under
    way: a browser that stands still costs no memory."""
    try:
        await sent
    except TimeoutError:
        return False
    return True


class Region(Generic[Value]):
    """A part of the page that is built again when its value has changed."""

    def __init__(self, container: Element, build: Callable[[Value], None]) -> None:
        self._container = container
        self._build = build
        self._shown: tuple[Value, ...] = ()

    def show(self, value: Value) -> None:
        """Builds the region, if the value is another one than before."""
        if self._shown == (value,):
            return
        self._shown = (value,)
        self._container.clear()
        with self._container:
            self._build(value)
