"""Finds the file that is not Python: install.yaml with the CRD and the operator's manifests.

It lies in the checkout's folder manifests; `railhead/data` links to it there, so that an
installed package carries a copy.
"""

from __future__ import annotations

from pathlib import Path

import railhead


class MissingAsset(RuntimeError):
    """The package lacks the file."""


def find_manifests() -> Path:
    """The file install.yaml.

    Raises:
        MissingAsset: with the place that was looked at.
    """
    place = Path(railhead.__file__).parent / "data" / "install.yaml"
    if not place.is_file():
        raise MissingAsset(f"{place} is missing; install Railhead again")
    return place
