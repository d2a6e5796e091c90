"""Crane at the pinned version: a client of image registries, and a registry for tests (`crane registry serve`).

It is built with Go from the module in tools/go/crane into the user's cache, as helm is. `docker push` would push a
release's archives as well, but needs a daemon, which the machines of the tests on a node do not have.
"""

from __future__ import annotations

from pathlib import Path

from tools.go_program import resolve_program

from railhead.local import Echo
from railhead.local.control_plane.binaries import GoModule

CRANE_VERSION = "0.22.1"
MODULE = GoModule("crane", package="github.com/google/go-containerregistry/cmd/crane")


def resolve_crane(echo: Echo) -> Path:
    """Returns the program. Raises NotBuilt."""
    return resolve_program(MODULE, CRANE_VERSION, echo) / "crane"
