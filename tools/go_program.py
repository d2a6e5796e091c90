"""One program of a pinned Go module in tools/go, built into the user's cache as the local control plane is."""

from __future__ import annotations

import os
import subprocess
from functools import partial
from pathlib import Path

from railhead.local import Echo
from railhead.local.control_plane.binaries import (
    GO_VERSION,
    GoModule,
    build_modules,
    find_go,
    make_once,
    users_cache,
)

SOURCES = Path(__file__).resolve().parent / "go"


class NotBuilt(RuntimeError):
    """There is no such program and none can be built; the message says why and what to do."""


def resolve_program(module: GoModule, version: str, echo: Echo, *, remedy: str = "install one") -> Path:
    """Its folder in the cache. `remedy`: what to do without Go.

    Raises:
        NotBuilt: with what to do.
    """
    folder = users_cache() / f"{module.folder}-{version}"
    is_made = partial(_has, program=module.folder)
    if not is_made(folder):
        make = partial(_build, module, remedy)
        make_once(folder, is_made=is_made, make=make, echo=echo, what=f"{module.folder} {version}")
    return folder


def _has(folder: Path, *, program: str) -> bool:
    return os.access(folder / program, os.X_OK)


def _build(module: GoModule, remedy: str, folder: Path, echo: Echo) -> None:
    go = find_go()
    if go is None:
        wanted = ".".join(map(str, GO_VERSION))
        raise NotBuilt(f"no Go {wanted} or newer to build {module.folder} with; {remedy}")
    try:
        build_modules(go, folder, sources=SOURCES, modules=[module], echo=echo)
    except subprocess.CalledProcessError as error:
        text = f"{module.folder} could not be built (exit code {error.returncode}); see {folder}.log"
        raise NotBuilt(text) from None
