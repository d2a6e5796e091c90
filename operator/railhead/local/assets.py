"""Finds the files that are not Python: the CRD and the manifests.

In a checkout they lie at its root; an installed package carries copies of them in
`railhead/data`.
"""

from __future__ import annotations

from pathlib import Path

import railhead


class MissingAsset(RuntimeError):
    """Neither the checkout nor the package has the folder."""


def find_assets(name: str) -> Path:
    """The folder `crds` or `manifests`.

    Raises:
        MissingAsset: with the places that were looked at.
    """
    package = Path(railhead.__file__).parent
    places = [package.parents[1] / name, package / "data" / name]
    for place in places:
        if place.is_dir():
            return place
    looked = " and ".join(str(place) for place in places)
    raise MissingAsset(f"no {name}: looked at {looked}; install Railhead again")
