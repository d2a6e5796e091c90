"""Print the versions that belong together: Railhead, Ray, the driver and the resource."""

from __future__ import annotations

import argparse

from railhead import __version__
from railhead.api import names
from railhead.driver.node.ray_features import FEATURES, OLDEST
from railhead.resources.bundle import build_bundle, bundle_name


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """No arguments."""


def run(_: argparse.Namespace) -> int:
    newer = ", ".join(f"{feature.field} {_write(feature.since)}" for feature in FEATURES)
    print(f"railhead  {__version__}")
    print(f"Ray       {_write(OLDEST)} or newer in a job's image ({newer})")
    print(f"driver    ConfigMap {bundle_name(build_bundle())}")
    print(f"CRD       {names.PLURAL}.{names.GROUP} {names.VERSION}, of Railhead {__version__} or newer")
    return 0


def _write(version: tuple[int, int]) -> str:
    return ".".join(str(part) for part in version)
