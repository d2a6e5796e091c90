"""Embeds an example's code in its manifest, between the manifest's two marker comments.

The code is in the folder `src` beside the manifest, where it can be read, linted and tested. The
manifest contains a copy, so that one `kubectl apply` is all that a user needs. Its first marker names the
file, so several manifests can have the same code.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

BEGIN = re.compile(r"^      # begin of src/(\S+\.py) \(copied by `make generate`\)$", re.MULTILINE)
END = "      # end of src/{name}\n"


def find_source(manifest: Path) -> Path:
    """Returns the file of the manifest's code.

    Raises:
        ValueError: there is not exactly one first marker.
    """
    names: list[str] = BEGIN.findall(manifest.read_text())
    if len(names) != 1:
        raise ValueError(f"{manifest} must name the file of its code in one marker comment, but names {names}")
    return manifest.parent / "src" / names[0]


def embed(manifest: str, *, name: str, code: str) -> str:
    """Returns the manifest with the code as the value of spec.source.inline.<name>.

    Raises:
        ValueError: a marker is missing.
    """
    begin, end = BEGIN.search(manifest), END.format(name=name)
    if begin is None or end not in manifest:
        raise ValueError(f"the marker comments for {name} are missing")
    lines = [f"        {line}" if line.strip() else "\n" for line in code.splitlines(keepends=True)]
    head, tail = manifest[: begin.end()], manifest.split(end)[1]
    return f"{head}\n      {name}: |\n{''.join(lines)}{end}{tail}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("manifests", type=Path, nargs="+")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    is_stale = False
    for manifest in options.manifests:
        source = find_source(manifest)
        old = manifest.read_text()
        new = embed(old, name=source.name, code=source.read_text())
        if options.check and new != old:
            print(f"{manifest} is stale: run `make generate`", file=sys.stderr)
            is_stale = True
        if not options.check:
            manifest.write_text(new)
    return 1 if is_stale else 0


if __name__ == "__main__":
    sys.exit(main())
