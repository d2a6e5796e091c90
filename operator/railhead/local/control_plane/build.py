"""Builds the control plane's programs from the pinned Go modules, into a cache folder."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from railhead.local.processes import spawn

GO_VERSION = (1, 26)
SAY_EVERY_SECONDS = 15.0


@dataclass(frozen=True)
class GoModule:
    """One program to build, from a folder with our own go.mod and go.sum.

    Attributes:
        folder: the name of the folder and of the program.
        package: what to build: the module itself, or a package that it requires.
        flags: for the linker.
        links: other names of the program, if it serves under several.
    """

    folder: str
    package: str = "."
    flags: str = "-s -w"
    links: tuple[str, ...] = ()


def build(go: list[str], target: Path, *, kubernetes: str, echo: Callable[[str], None]) -> None:
    """Builds etcd, the Kubernetes servers and kubectl.

    Raises:
        subprocess.CalledProcessError: a build failed; its output is in `<target>.log`.
    """
    kube = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
    modules = (GoModule("etcd"), GoModule("kube", flags=build_flags(kubernetes), links=kube))
    with resources.as_file(resources.files("railhead.local.control_plane") / "go") as sources:
        build_modules(go, target, sources=sources, modules=modules, echo=echo)


def build_modules(
    go: list[str], target: Path, *, sources: Path, modules: Sequence[GoModule], echo: Callable[[str], None]
) -> None:
    """Builds into a folder beside the target and renames it at the end: nobody finds a partial build.

    Args:
        sources: the folder with the modules' folders.

    Raises:
        subprocess.CalledProcessError: a build failed; its output is in `<target>.log`.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    log = target.with_name(target.name + ".log")
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="build-") as name:
        folder = Path(name)
        out = folder / "out"
        out.mkdir()
        shutil.copytree(sources, folder / "go")
        for module in modules:
            echo(f"building {', '.join(module.links) or module.folder} with Go (once; minutes with empty caches)")
            command = [*go, "build", "-mod=readonly", "-trimpath", "-ldflags", module.flags]
            command += ["-o", str(out / module.folder), module.package]
            _run(command, folder / "go" / module.folder, log=log, what=module.folder, echo=echo)
            for link in module.links:
                (out / link).symlink_to(module.folder)
        if target.exists():
            shutil.rmtree(target)
        out.rename(target)


def build_flags(kubernetes: str) -> str:
    """Without them a program of Kubernetes would report version 0.0.0, and disable newer features."""
    package = "k8s.io/component-base/version"
    major, minor, _ = kubernetes.split(".")
    values = {"gitVersion": f"v{kubernetes}", "gitMajor": major, "gitMinor": minor}
    return "-s -w " + " ".join(f"-X {package}.{name}={value}" for name, value in values.items())


def _run(command: list[str], cwd: Path, *, log: Path, what: str, echo: Callable[[str], None]) -> None:
    temp = cwd / "tmp"  # in the folder that is removed whatever happens
    temp.mkdir()
    env = {
        **os.environ,
        "CGO_ENABLED": "0",
        "GOFLAGS": "-buildvcs=false",
        "GOTOOLCHAIN": "local",
        "GOTMPDIR": str(temp),
    }
    began = time.monotonic()
    process = spawn(command, cwd=cwd, env=env, log=log)
    try:
        while (code := _wait(process)) is None:
            echo(f"  still building {what} ({time.monotonic() - began:.0f} s)")
    finally:
        if process.poll() is None:  # interrupted: the compilers that it started must stop, too
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if code:
        raise subprocess.CalledProcessError(code, command)
    echo(f"  {what} built in {time.monotonic() - began:.0f} s")


def _wait(process: subprocess.Popen[bytes]) -> int | None:
    try:
        return process.wait(SAY_EVERY_SECONDS)
    except subprocess.TimeoutExpired:
        return None
