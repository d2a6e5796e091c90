"""Finds the package's only data file: install.yaml with the CRD and the operator's manifests.

It is in the checkout's folder manifests; `railhead/data` links to it there, so that an
installed package contains a copy.
"""

from __future__ import annotations

from pathlib import Path

import railhead


class MissingAsset(RuntimeError):
    """The package lacks the file."""


def find_manifests() -> Path:
    """The file install.yaml.

    Raises:
        MissingAsset: with the expected path.
    """
    place = Path(railhead.__file__).parent / "data" / "install.yaml"
    if not place.is_file():
        raise MissingAsset(f"{place} is missing; reinstall Railhead")
    return place
