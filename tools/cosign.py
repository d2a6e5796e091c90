"""Cosign at the pinned version, for the signatures of `make publish`.

It is built with Go from the module in tools/go/cosign into the user's cache, as helm is; that takes some minutes.
"""

from __future__ import annotations

from pathlib import Path

from tools.go_program import resolve_program

from railhead.local import Echo
from railhead.local.control_plane.binaries import GoModule

COSIGN_VERSION = "3.1.3"
MODULE = GoModule("cosign", package="github.com/sigstore/cosign/v3/cmd/cosign")


def resolve_cosign(echo: Echo) -> Path:
    """Returns the program. Raises NotBuilt."""
    return resolve_program(MODULE, COSIGN_VERSION, echo) / "cosign"
