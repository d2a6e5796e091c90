"""The versions of packages in the job's image, by their metadata: nothing is imported."""

from __future__ import annotations

from typing import Optional, Tuple

Version = Tuple[int, int]


def find_version(package: str = "ray") -> str:
    """Returns the package's version in the image, or an empty string if the image does not have it."""
    # Not with the module: it would double what one upload of logs takes.
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def parse_version(version: str) -> Optional[Version]:
    try:
        major, minor = (int(part) for part in version.split(".")[:2])
    except ValueError:
        return None
    return major, minor


def write_version(version: Version) -> str:
    return ".".join(str(part) for part in version)
