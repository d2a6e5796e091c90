"""`make publish`: pushes the package and the chart of build/release, which `make release` has built from a tag.

It refuses a dirty tree, a commit without the version's tag, files that `make release` did not write, and a version
that the index or the registry has already. twine and helm find credentials where they always do (TWINE_* or .pypirc;
the configuration of docker or helm), so none is an argument here. The images, signatures and provenance are not
published yet: docs/internals/release.md says what to do by hand.
"""

from __future__ import annotations

import argparse
import hashlib
import shlex
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from tools.go_program import NotBuilt
from tools.helm import resolve_helm
from tools.image import Run, run_quietly
from tools.release import FOLDER
from tools.sbom import BIN

from railhead import __version__

TWINE_VERSION = "7.0.0"
SIMPLE_JSON = "application/vnd.pypi.simple.v1+json"
TIMEOUT_SECONDS = 30


class Refused(RuntimeError):
    """This version must not be published now; the message says why."""


@dataclass(frozen=True)
class Target:
    """Where a release goes."""

    registry: str  # with the path, and without a scheme: ghcr.io/railhead
    index: str  # what pip reads
    upload: str  # where twine uploads to
    plain_http: bool = False

    @property
    def charts(self) -> str:
        return f"oci://{self.registry}/charts"


def check_target(target: Target) -> None:
    """Raises Refused for an address with credentials, which the process list and logs would show."""
    for address in (f"//{target.registry}", target.index, target.upload):
        if "@" in urlsplit(address).netloc:
            raise Refused("an address with credentials: they belong into TWINE_*, .pypirc or docker's configuration")


def check_tree(version: str, run: Run = run_quietly) -> None:
    """Raises Refused unless the tree is clean and its commit has the version's tag."""
    status = run(["git", "status", "--porcelain"])
    if status.returncode:
        raise Refused(f"git status: {status.stderr.strip()}")
    if status.stdout:
        raise Refused(f"the tree is dirty:\n{status.stdout.rstrip()}")
    tags = run(["git", "tag", "--points-at", "HEAD"]).stdout.split()
    if f"v{version}" not in tags:
        raise Refused(f"the version is {version}, and this commit has {' '.join(tags) or 'no tag'}, not v{version}")


def check_files(folder: Path, version: str) -> None:
    """Raises Refused unless SHA256SUMS lists the version's package and chart, and each file is as it says."""
    sums = folder / "SHA256SUMS"
    if not sums.is_file():
        raise Refused(f"{sums} is missing: run make release")
    digests = {name: digest for digest, name in (line.split("  ", 1) for line in sums.read_text().splitlines())}
    missing = {file.name for file in files_to_upload(folder, version)} - digests.keys()
    if missing:
        raise Refused(f"{folder} has no {', '.join(sorted(missing))}: run make release")
    for name, digest in digests.items():
        file = folder / name
        if not file.is_file() or hashlib.sha256(file.read_bytes()).hexdigest() != digest:
            raise Refused(f"{file} is not as SHA256SUMS says: run make release")


def files_to_upload(folder: Path, version: str) -> list[Path]:
    """Wheel, sdist, chart."""
    package = f"railhead_train-{version}"
    return [folder / f"{package}-py3-none-any.whl", folder / f"{package}.tar.gz", folder / f"railhead-{version}.tgz"]


def check_index(index: str, version: str) -> None:
    """Raises Refused when it has the version, or does not answer."""
    url = f"{index.rstrip('/')}/railhead-train/"
    request = urllib.request.Request(url, headers={"Accept": f"{SIMPLE_JSON}, text/html;q=0.1"})
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:
            text = answer.read().decode()
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return
        raise Refused(f"{url}: {error}") from None
    except OSError as error:
        raise Refused(f"{url}: {error}") from None
    if any(f"railhead_train-{version}{rest}" in text for rest in ("-py3", ".tar.gz")):
        raise Refused(f"{index} has railhead-train {version} already")


def check_registry(helm: str, target: Target, version: str, run: Run = run_quietly) -> None:
    """Raises Refused when it has the version, or does not answer."""
    chart = f"{target.charts}/railhead"
    done = run([helm, "show", "chart", chart, "--version", version, *helm_flags(target)])
    if not done.returncode:
        raise Refused(f"{chart} has version {version} already")
    if "not found" not in done.stderr:
        raise Refused(f"{chart}: {done.stderr.strip()}")


def helm_flags(target: Target) -> list[str]:
    return ["--plain-http"] if target.plain_http else []


def publish_commands(helm: str, target: Target, folder: Path, version: str) -> list[list[str]]:
    *package, chart = map(str, files_to_upload(folder, version))
    twine = [str(BIN / "uv"), "tool", "run", "--quiet", "--from", f"twine=={TWINE_VERSION}", "twine"]
    return [
        [*twine, "upload", "--non-interactive", "--disable-progress-bar", "--repository-url", target.upload, *package],
        [helm, "push", chart, target.charts, *helm_flags(target)],
    ]


def publish(target: Target, *, folder: Path, version: str, dry_run: bool) -> None:
    """Raises Refused, NotBuilt or subprocess.CalledProcessError."""
    check_target(target)
    check_tree(version)
    check_files(folder, version)
    check_index(target.index, version)
    helm = str(resolve_helm(lambda text: print(text, file=sys.stderr)))
    check_registry(helm, target, version)
    for command in publish_commands(helm, target, folder, version):
        print(f"{'would run' if dry_run else '+'} {shlex.join(command)}", flush=True)
        if not dry_run:
            subprocess.run(command, check=True)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--registry", required=True, help="for the chart, without a scheme: ghcr.io/OWNER")
    parser.add_argument("--index", required=True, help="what pip reads: pip's --index-url")
    parser.add_argument("--upload", help="where twine uploads to (default: --index)")
    parser.add_argument("--plain-http", action="store_true", help="the registry has no TLS")
    parser.add_argument("--dry-run", action="store_true", help="check everything, and print the commands")
    options = parser.parse_args(arguments)
    target = Target(options.registry, options.index, options.upload or options.index, plain_http=options.plain_http)
    try:
        publish(target, folder=FOLDER, version=__version__, dry_run=options.dry_run)
    except (Refused, NotBuilt) as error:
        print(f"not published: {error}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        print(f"{Path(error.cmd[0]).name} exited with code {error.returncode}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
