"""Embeds an example's code in its manifest, between the manifest's two marker comments.

The code is in manifests/examples/src, where it can be read, linted and tested; the
manifest contains a copy, so that one `kubectl apply` is all that a user needs.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

BEGIN = "      # begin of src/{name} (copied by `make generate`)\n"
END = "      # end of src/{name}\n"


def embed(manifest: str, *, name: str, code: str) -> str:
    """The manifest with the code as the value of spec.source.inline.<name>.

    Raises:
        ValueError: a marker is missing.
    """
    begin, end = BEGIN.format(name=name), END.format(name=name)
    if begin not in manifest or end not in manifest:
        raise ValueError(f"the marker comments for {name} are missing")
    lines = [f"        {line}" if line.strip() else "\n" for line in code.splitlines(keepends=True)]
    head, tail = manifest.split(begin)[0], manifest.split(end)[1]
    return f"{head}{begin}      {name}: |\n{''.join(lines)}{end}{tail}"


def find_source(manifest: Path) -> Path:
    """`digits-jax.yaml` has its code in `src/digits_jax.py`: a module's name has no dash."""
    return manifest.parent / "src" / f"{manifest.stem.replace('-', '_')}.py"


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
