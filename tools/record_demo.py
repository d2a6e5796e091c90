"""`make record-demo`: runs the demo and draws its output as docs/assets/demo.svg, which the README shows.

The drawing is a terminal in which each line appears at its time, SPEED times as fast as it was; the seconds at the
beginning of a line are the demo's own. A reader who prefers less motion sees all lines at once.
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

PROJECT = Path(__file__).resolve().parents[1]
PLACE = PROJECT / "docs" / "assets" / "demo.svg"
COLUMNS = 116
SPEED = 5
LEFT_OUT = re.compile(r"^ *[\d.]+ s  (?:pod|checkpoint) ")
FOLDER = re.compile(r"/\S+(?=/checkpoint_)")  # the session's folder, different on each machine
LAST = "proven: "
STYLES = (
    (re.compile(r"(?:kubectl|sed) .*"), "bold"),
    (re.compile(r".*(?:worker is killed|WorkerLost).*"), "bold bright_red"),
    (re.compile(r"(?:training resumed|proven: ).*"), "bold bright_green"),
)
# Rich's own format loads a font from the network. Doubled braces, because Rich formats it.
FORMAT = """\
<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg" role="img" aria-label="The output of make demo">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, monospace; font-size: {char_height}px; }}
.{unique_id}-title {{ font-family: sans-serif; font-size: 18px; font-weight: bold; }}
{styles}
@keyframes appear {{ from {{ opacity: 0 }} }}
@media (prefers-reduced-motion: no-preference) {{
.{unique_id}-matrix text {{ animation: appear 1ms both }}
DELAYS
}}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


@dataclass(frozen=True)
class Line:
    """A line of the output, and the seconds after the start at which it was printed."""

    seconds: float
    text: str


class DemoFailed(Exception):
    """The demo proved nothing, so there is nothing to show."""


def record() -> Iterator[Line]:
    """Runs the demo, and repeats its lines here. Raises DemoFailed."""
    command = [sys.executable, "-u", str(PROJECT / "tools" / "demo.py")]
    began = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        for text in process.stdout:
            print(text, end="", flush=True)
            yield Line(time.monotonic() - began, text.rstrip())
    if process.returncode != 0:
        raise DemoFailed(f"the demo exited with code {process.returncode}")


def choose(lines: Iterable[Line]) -> list[Line]:
    """Returns the lines up to the proof, without those about single pods and checkpoints, and with short folders."""
    chosen: list[Line] = []
    for line in lines:
        if not LEFT_OUT.match(line.text):
            chosen.append(Line(line.seconds, FOLDER.sub("…", line.text)))
        if line.text.partition(" s  ")[2].startswith(LAST):
            break
    return chosen


def draw(lines: list[Line]) -> str:
    """Returns the SVG; a line longer than the terminal is cut."""
    terminal = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    for line in lines:
        text = Text(line.text)
        start = line.text.find(" s  ") + len(" s  ")
        for pattern, style in STYLES:
            if pattern.match(line.text[start:].lstrip()):
                text.stylize(style, start)
        terminal.print(text, highlight=False, no_wrap=True, overflow="ellipsis")
    svg = terminal.export_svg(title="make demo", theme=MONOKAI, code_format=FORMAT, unique_id="demo")
    delays = (
        f'text[clip-path="url(#demo-line-{number})"] {{ animation-delay: {line.seconds / SPEED:.2f}s }}'
        for number, line in enumerate(lines)
    )
    return svg.replace("DELAYS", "\n".join(delays))


def main() -> int:
    try:
        lines = list(record())
    except DemoFailed as error:
        print(f"record-demo: {error}", file=sys.stderr)
        return 1
    PLACE.write_text(draw(choose(lines)))
    print(f"wrote {PLACE.relative_to(PROJECT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
