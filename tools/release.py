"""`make release`: builds one version into dist/, with checksums, and keeps its CRD for the tests of later ones.

Nothing is published: that is done by hand, from dist/.
"""

from __future__ import annotations

import argparse
import hashlib
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.go_program import NotBuilt
from tools.helm import resolve_helm
from tools.image import NoBuilder, find_builder, make_image
from tools.sbom import build_wheel, write_sbom

from railhead import __version__
from railhead.api.crd import FILE_NAME

PROJECT = Path(__file__).resolve().parents[1]
INSTALL = PROJECT / "manifests" / "install.yaml"
RELEASED = PROJECT / "tests" / "released" / __version__


def keep_crd(crd: Path, folder: Path) -> None:
    """For `tests/unit/api/test_released.py` of later versions."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(crd, folder / crd.name)


def package_chart(dist: Path) -> None:
    """Raises NotBuilt or subprocess.CalledProcessError."""
    helm = resolve_helm(lambda text: print(text, file=sys.stderr))
    command = [str(helm), "package", str(PROJECT / "charts" / "railhead"), "--destination", str(dist)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def write_checksums(dist: Path) -> list[str]:
    """Writes SHA256SUMS, for `sha256sum --check`; returns its lines."""
    # uv writes a hidden .gitignore next to what it builds
    files = sorted(file for file in dist.glob("[!.]*") if file.is_file() and file.name != "SHA256SUMS")
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}" for file in files]
    (dist / "SHA256SUMS").write_text("".join(f"{line}\n" for line in lines))
    return lines


def release(dist: Path, *, image_arguments: Sequence[str]) -> list[str]:
    """Returns the lines of SHA256SUMS; no image without a builder. Raises NotBuilt or subprocess.CalledProcessError."""
    shutil.rmtree(dist, ignore_errors=True)
    dist.mkdir()
    wheel = build_wheel(dist)
    write_sbom(wheel, dist / f"railhead-{__version__}.cdx.json")
    package_chart(dist)
    shutil.copyfile(INSTALL, dist / INSTALL.name)
    crd = PROJECT / "crds" / FILE_NAME
    shutil.copyfile(crd, dist / crd.name)
    keep_crd(crd, RELEASED)
    try:
        archive = dist / f"railhead-operator-{__version__}.tar"
        make_image(find_builder(), archive=archive, more=image_arguments)
    except NoBuilder as error:
        print(f"released without an image: {error}", file=sys.stderr)
    return write_checksums(dist)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--image-args", default="", help="more arguments for the image's build, as one string")
    options = parser.parse_args(arguments)
    try:
        lines = release(PROJECT / "dist", image_arguments=shlex.split(options.image_args))
    except NotBuilt as error:
        print(error, file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        print(f"{error.cmd[0]} exited with code {error.returncode}", file=sys.stderr)
        return 1
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
