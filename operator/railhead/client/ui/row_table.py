"""A table of a tab, all of whose rows are sent to the browser again when one of them has changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

from nicegui import ui

from railhead.client.ui.grid_scripts import ROW_ID, hide_when_narrow
from railhead.client.ui.viewing import ANSWER_SECONDS, is_taken

Options = dict[str, object]
Item = TypeVar("Item")


class RowTable(Generic[Item]):
    """A table, and what it shows. NiceGUI keeps no copy of its rows.

    Attributes:
        grid: the element.
    """

    def __init__(self, options: Options, style: str) -> None:
        self.grid = ui.aggrid(options).classes("rh-grid").style(style)
        self._shown: tuple[Item, ...] | None = None

    def is_shown(self, items: tuple[Item, ...]) -> bool:
        """Returns whether the browser has these already."""
        return items == self._shown

    async def show(self, items: tuple[Item, ...], rows: Sequence[Mapping[str, object]]) -> None:
        """Sends the rows of these items. A browser that has not taken them gets them with the next change."""
        sent = self.grid.run_grid_method("setGridOption", "rowData", rows, timeout=ANSWER_SECONDS)
        if await is_taken(sent):
            self._shown = items


def build_table_options(columns: Sequence[Options], *, for_wide: list[str], empty: str = "") -> Options:
    """Returns the options of a table, without rows.

    `for_wide`: fields of the columns that a narrow window has no room for; `empty`: what stands in a table without
    rows, a constant; "" = what the library writes.
    """
    options: Options = {
        "columnDefs": list(columns),
        "defaultColDef": {"sortable": True, "resizable": True, "suppressHeaderMenuButton": True},
        ":onGridSizeChanged": hide_when_narrow(for_wide),
        ":getRowId": ROW_ID,
        "enableCellTextSelection": True,
        "suppressColumnMoveAnimation": True,
        "headerHeight": 34,
        "rowHeight": 34,
    }
    if empty:
        options["overlayNoRowsTemplate"] = empty
    return options
