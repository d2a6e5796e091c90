"""`railhead version`: the versions that belong together."""

from __future__ import annotations

import argparse

from railhead._version import __version__
from railhead.api import names
from railhead.driver.container.packages import write_version
from railhead.driver.ray.supported_versions import FEATURES, OLDEST
from railhead.resources.bundle import build_bundle, bundle_name


def do_version(_: argparse.Namespace) -> int:
    """Prints what belongs to this version of Railhead."""
    newer = ", ".join(f"{feature.field} {write_version(feature.since)}" for feature in FEATURES)
    print(f"railhead  {__version__}")
    print(f"Ray       {write_version(OLDEST)} or newer in a job's image ({newer})")
    print(f"driver    ConfigMap {bundle_name(build_bundle())}")
    print(f"CRD       {names.PLURAL}.{names.GROUP} {names.VERSION}, of Railhead {__version__} or newer")
    return 0
