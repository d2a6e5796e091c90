"""What the commands print: tables that fit the terminal, JSON and YAML, colours only on a terminal.

Text of the cluster is hostile: no character of it reaches the terminal that a terminal acts on.
"""

from __future__ import annotations

import dataclasses
import io
import json
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

from railhead.contract.text import clean_line

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

LEAST_WIDTH = 6  # of a column that is cut
GAP = "  "
COLOURS: Mapping[str, str] = {
    "Succeeded": "32",
    "Running": "32",
    "Failed": "31",
    "Pending": "33",
    "Starting": "33",
    "Restarting": "33",
}
# Strings that a terminal obeys: they set its title, write the clipboard, or make it answer. A line ends them, too.
_COMMANDS = re.compile("(?:\x1b[]PX^_]|[\x90\x98\x9d\x9e\x9f]).*?(?:\x07|\x1b\\\\|\x9c|$)")
_COLOUR = re.compile(r"\x1b\[[0-9;]{0,32}m")


def prepare_output() -> None:
    """Lets standard output take any character, of which its encoding may lack some, and the same bytes on all systems:
    on Windows a pipe or a file gets the code page of the system and other ends of lines otherwise."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        is_windows = sys.platform == "win32"
        sys.stdout.reconfigure(errors="replace", newline="\n", encoding="utf-8" if is_windows else None)


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        can_be_cut: whether it becomes narrower where the table does not fit.
        drop: the columns with the highest number are left out first; 0 = it always stays.
    """

    title: str
    can_be_cut: bool = False
    drop: int = 0


class Console:
    """Standard output.

    Attributes:
        width: columns of the terminal; None = a pipe or a file, in which no line is cut or wrapped.
        height: lines of the terminal, likewise.
    """

    def __init__(self, stream: TextIO | None = None, *, width: int | None = None, is_terminal: bool = False) -> None:
        self.stream = stream or sys.stdout
        self.is_terminal = is_terminal or self.stream.isatty()
        self.width = width or (shutil.get_terminal_size().columns if self.is_terminal else None)
        self.height = shutil.get_terminal_size().lines if self.is_terminal else None
        self.has_colour = self.is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"

    def line(self, text: str = "") -> None:
        """Prints one line without what a terminal acts on."""
        print(clean_line(text), file=self.stream, flush=True)

    def clear(self) -> None:
        """Empties a terminal; in a pipe a line separates what follows from what came before."""
        print("\x1b[H\x1b[2J" if self.is_terminal else "\n", end="", file=self.stream)

    def log_line(self, text: str) -> None:
        """Prints a line of a pod's log. On a terminal only its colours are kept, in a pipe all but what commands a
        terminal: `railhead logs | grep` shows the line on one."""
        text = _COMMANDS.sub("", text)
        if self.is_terminal:
            text = self._clean_colours(text)
        print(text, file=self.stream, flush=True)

    def _clean_colours(self, text: str) -> str:
        """Keeps the colours of a line if this terminal has any, and ends them with it."""
        words = [clean_line(word) for word in _COLOUR.split(text)]
        colours = _COLOUR.findall(text)
        if not self.has_colour or not colours:
            return "".join(words)
        first, *others = words
        coloured = [colour + word for colour, word in zip(colours, others, strict=True)]
        return "".join([first, *coloured, "\x1b[0m"])

    def paragraph(self, text: str, indent: str = "") -> None:
        """Prints text, each line of it indented, and wrapped on a terminal between words only."""
        for each in map(clean_line, text.splitlines() or [""]):
            lines = [indent + each]
            if self.width is not None:
                wrapper = textwrap.TextWrapper(
                    self.width,
                    initial_indent=indent,
                    subsequent_indent=indent,
                    break_long_words=False,
                    break_on_hyphens=False,
                )
                lines = wrapper.wrap(each) or [""]
            for line in lines:
                print(line, file=self.stream, flush=True)

    def table(self, columns: Sequence[Column], rows: Iterable[Sequence[str]], *, has_header: bool = True) -> None:
        """Prints the rows, below the titles; on a terminal they are cut to its width."""
        for line in layout(columns, list(rows), self.width, has_header=has_header):
            print(self._colour(line), file=self.stream)
        self.stream.flush()

    def print_if_data(self, value: DataclassInstance | dict[str, object], format_: str) -> bool:
        """Prints a value as JSON or YAML, and returns whether the format is one of them; a dataclass becomes an object
        with camelCase keys."""
        if format_ not in ("json", "yaml"):
            return False
        from pydantic.alias_generators import to_camel

        def name_fields(fields: list[tuple[str, object]]) -> dict[str, object]:
            return {to_camel(name): each for name, each in fields}

        if isinstance(value, dict):
            plain = value
        else:
            plain = dataclasses.asdict(value, dict_factory=name_fields)
        if format_ == "json":
            text = json.dumps(plain, indent=2, ensure_ascii=True)
        else:
            import yaml

            text = yaml.safe_dump(plain, sort_keys=False, width=120).rstrip()
        print(text, file=self.stream, flush=True)
        return True

    def _colour(self, line: str) -> str:
        if not self.has_colour:
            return line
        pattern = rf"(?<=  )({'|'.join(COLOURS)})(?=  )"
        return re.sub(pattern, _colour_phase, line, count=1)


def remark(text: str) -> None:
    """Says on standard error what does not belong to the output of the command."""
    Console(sys.stderr).line(f"railhead: {text}")


def _colour_phase(found: re.Match[str]) -> str:
    return f"\x1b[{COLOURS[found[1]]}m{found[1]}\x1b[0m"


def layout(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int | None, *, has_header: bool = True
) -> list[str]:
    """Returns the lines of a table. Beyond `width`, columns are left out, then the widest one is cut."""
    shown = list(range(len(columns)))
    cells = [[clean_line(cell) for cell in row] for row in rows]
    if has_header:
        cells.insert(0, [column.title for column in columns])
    wide = [max((len(row[index]) for row in cells), default=0) for index in range(len(columns))]

    def total() -> int:
        return sum(wide[index] for index in shown) + len(GAP) * (len(shown) - 1)

    if width is not None:
        drops = [column.drop for column in columns]
        while total() > width and any(drops[index] for index in shown):
            shown.remove(max(shown, key=drops.__getitem__))
        while total() > width:
            widest = max((i for i in shown if columns[i].can_be_cut), key=wide.__getitem__, default=None)
            if widest is None or wide[widest] <= LEAST_WIDTH:
                break
            wide[widest] = max(LEAST_WIDTH, wide[widest] - (total() - width))
    return [GAP.join(_fit(row[i], wide[i]) for i in shown).rstrip() for row in cells]


def _fit(cell: str, width: int) -> str:
    if len(cell) <= width:
        return cell.ljust(width)
    return f"{cell[: width - 1]}…"
