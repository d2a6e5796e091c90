"""Finds the files that are not Python: the CRD and the manifests.

They lie at the root of the checkout; `railhead/data` links to them there, so that an
installed package carries copies.
"""

from __future__ import annotations

from pathlib import Path

import railhead


class MissingAsset(RuntimeError):
    """The package lacks the folder."""


def find_assets(name: str) -> Path:
    """The folder `crds` or `manifests/operator`.

    Raises:
        MissingAsset: with the place that was looked at.
    """
    place = Path(railhead.__file__).parent / "data" / name
    if not place.is_dir():
        raise MissingAsset(f"{place} is missing; install Railhead again")
    return place
