"""`make release`: everything that a release of one version needs, in build/release, with checksums.

The files are those of the commit: each timestamp is the commit's, so the same commit gives the same bytes (`--twice`
builds again and compares them; no action does that). What cannot be built on this machine is named on stderr.
`make publish` publishes the folder, the workflow attests it, and `make keep-crd` keeps the release's CRD for the tests
of later ones.
"""

from __future__ import annotations

import argparse
import gzip
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tools.debian_image import make_operator_image
from tools.go_program import NotBuilt
from tools.helm import resolve_helm
from tools.image import NoBuilder, describe_commit, find_builder, make_image
from tools.oci import digest_file
from tools.sbom import build_distributions, write_sbom

from railhead._version import __version__
from railhead.api.crd import FILE_NAME

PROJECT = Path(__file__).resolve().parents[1]
FOLDER = PROJECT / "build" / "release"
CRD = PROJECT / "crds" / FILE_NAME
INSTALL = PROJECT / "manifests" / "install.yaml"
RELEASED = PROJECT / "tests" / "released" / __version__
NOTES = "release-notes.md"


# The Dockerfile's arguments that name a base, and what an argument of a builder sets.
BASE = re.compile(r"^ARG (\w*_IMAGE)=(\S+)$", re.MULTILINE)
SET = re.compile(r"(?:--build-arg=)?(\w*_IMAGE)=(\S*)")
PINNED = re.compile(r"\S+@sha256:[0-9a-f]{64}")


class NotPinned(RuntimeError):
    """The image's base may change from one build to the next; the message says what to do."""


class NotReproducible(RuntimeError):
    """A second build gave other bytes; the message names the files."""


def keep_crd(crd: Path, folder: Path) -> None:
    """For `tests/unit/api/test_released.py` of later versions."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(crd, folder / crd.name)


def package_chart(folder: Path) -> Path:
    """Raises NotBuilt or subprocess.CalledProcessError."""
    helm = resolve_helm(echo)
    command = [str(helm), "package", str(PROJECT / "charts" / "railhead"), "--destination", str(folder)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return folder / f"railhead-{__version__}.tgz"


def repack(archive: Path, epoch: int) -> None:
    """Rewrites a .tar.gz without what differs from one build to the next: times, owners, umask and order."""
    with tarfile.open(archive) as old:
        files = {entry.name: (entry, old.extractfile(entry)) for entry in old}
        buffer = io.BytesIO()
        # GNU's format has no further headers, which would keep the old times.
        with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as new:
            for name in sorted(files):
                entry, content = files[name]
                mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
                clean = entry.replace(mtime=epoch, mode=mode, uid=0, gid=0, uname="", gname="")
                new.addfile(clean, content)
    archive.write_bytes(gzip.compress(buffer.getvalue(), mtime=epoch))


def find_notes(changelog: str, version: str) -> str:
    """The version's part of the changelog without its heading; that of Unreleased where the version has none."""
    parts = {}
    for part in changelog.split("\n## [")[1:]:
        heading, _, text = part.partition("\n")
        parts[heading.partition("]")[0]] = text.strip() + "\n"
    return parts.get(version) or parts["Unreleased"]


def write_checksums(folder: Path) -> list[str]:
    """Writes SHA256SUMS, for `sha256sum --check`; returns its lines."""
    # uv writes a hidden .gitignore next to what it builds
    files = sorted(file for file in folder.glob("[!.]*") if file.is_file() and file.name != "SHA256SUMS")
    lines = [f"{digest_file(file)}  {file.name}" for file in files]
    (folder / "SHA256SUMS").write_text("".join(f"{line}\n" for line in lines))
    return lines


def build_files(folder: Path, *, epoch: int) -> None:
    """Everything but the image. Raises NotBuilt or subprocess.CalledProcessError."""
    wheel, sdist = build_distributions(folder, epoch=epoch)
    chart = package_chart(folder)
    for archive in (sdist, chart):
        repack(archive, epoch)
    write_sbom(wheel, folder / f"railhead-{__version__}.cdx.json")
    for file in (INSTALL, CRD):
        shutil.copyfile(file, folder / file.name)
    (folder / NOTES).write_text(find_notes((PROJECT / "CHANGELOG.md").read_text(), __version__))


def check_bases(dockerfile: str, more: Sequence[str]) -> None:
    """Raises NotPinned unless Dockerfile and arguments name each base by its digest."""
    bases = dict(BASE.findall(dockerfile))
    for argument in more:
        found = SET.fullmatch(argument)
        if found:
            bases[found[1]] = found[2]
    for name, image in bases.items():
        is_other = image.startswith("${") and image[2:-1] in bases
        if not is_other and not PINNED.fullmatch(image):
            raise NotPinned(
                f"{name} is {image}, whose contents may change. Pass its digest: "
                f'IMAGE_ARGS="--build-arg {name}={image.partition("@")[0]}@sha256:DIGEST"'
            )


def build_image(folder: Path, more: Sequence[str]) -> None:
    """Writes the archive of the operator's image.

    Args:
        more: arguments for a builder, which only it understands.

    Raises:
        NoBuilder: neither a builder nor debootstrap works here.
        NotPinned: a base has no digest.
        subprocess.CalledProcessError: a command failed.
    """
    archive = folder / f"railhead-operator-{__version__}.tar"
    try:
        builder = find_builder()
    except NoBuilder as error:
        if more:
            raise
        try:
            make_operator_image(archive, wheel=folder / f"railhead_train-{__version__}-py3-none-any.whl", echo=echo)
        except NoBuilder as second:
            raise NoBuilder(f"{error} {second}") from None
        return
    check_bases((PROJECT / "Dockerfile").read_text(), more)
    make_image(builder, archive=archive, more=more)


def echo(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def compare_builds(first: Sequence[str], second: Sequence[str]) -> None:
    """Compares the lines of two SHA256SUMS.

    Raises:
        NotReproducible: they differ.
    """
    names = sorted({line.split()[1] for line in set(first) ^ set(second)})
    if names:
        raise NotReproducible(f"a second build gave other bytes: {', '.join(names)}")


def release(folder: Path, *, image_arguments: Sequence[str], twice: bool = False) -> list[str]:
    """Returns the lines of SHA256SUMS; no image where none can be built.

    Raises:
        NotBuilt: a program is missing and cannot be built.
        NotPinned: a base of the image has no digest.
        NotReproducible: only with `twice`.
        subprocess.CalledProcessError: a command failed.
    """
    epoch = int(describe_commit()[0])
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    build_files(folder, epoch=epoch)
    if twice:
        with tempfile.TemporaryDirectory() as name:
            build_files(Path(name), epoch=epoch)
            compare_builds(write_checksums(folder), write_checksums(Path(name)))
            echo("a second build gave the same bytes; the image is not compared")
    try:
        build_image(folder, image_arguments)
    except NoBuilder as error:
        echo(f"released without the operator's image: {error}")
    echo("released without the examples' image (make example-image builds it), and without images for arm64")
    return write_checksums(folder)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--image-args", default="", help="more arguments for the image's build, as one string")
    parser.add_argument("--twice", action="store_true", help="build a second time, and compare the bytes")
    parser.add_argument("--keep-crd", action="store_true", help="only keep the CRD for the tests of later releases")
    options = parser.parse_args(arguments)
    if options.keep_crd:
        keep_crd(CRD, RELEASED)
        print(os.path.relpath(RELEASED / CRD.name))
        return 0
    try:
        lines = release(FOLDER, image_arguments=shlex.split(options.image_args), twice=options.twice)
    except (NotBuilt, NotPinned, NotReproducible) as error:
        print(error, file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        print(f"{error.cmd[0]} exited with code {error.returncode}", file=sys.stderr)
        return 1
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
