"""`make checksums`: writes the SHA-256 of the release binaries that local mode downloads, as published.

Needs the network, so a maintainer runs it when the pinned version of Kubernetes or etcd changes. Exit code 1, with the
file as before, if a publisher does not answer.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from railhead.local.control_plane import binaries
from railhead.local.control_plane.binaries import ARCHITECTURES, NotDownloaded, Publishers, fetch_checksum

FILE = Path(binaries.__file__).with_name(binaries.CHECKSUMS)


def write(file: Path, publishers: Publishers) -> None:
    """Replaces all lines but the comments. Raises NotDownloaded."""
    comments = [line for line in file.read_text().splitlines() if line.startswith("#")]
    releases = [release for arch in sorted(ARCHITECTURES.values()) for release in publishers.list_releases(arch)]
    lines = [f"{fetch_checksum(release)}  {release.url}" for release in releases]
    file.write_text("\n".join([*comments, *lines]) + "\n")


def main(arguments: Sequence[str]) -> int:
    if arguments:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        write(FILE, Publishers())
    except NotDownloaded as error:
        print(f"checksums: {error}; {FILE.name} is as before", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
