"""`make image` and `make example-image`: an image, with whichever of docker, podman and buildah works here.

docker/build-push-action would do it in the workflow alone; a maintainer and the tests on a node build with the same
command as the workflow. The same commit gives the same files: timestamps are those of the commit, and the label
`org.opencontainers.image.revision` names it.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from railhead._version import __version__

PROJECT = Path(__file__).resolve().parents[1]
BUILDERS = ("docker", "podman", "buildah")
NAME = f"railhead/operator:{__version__}"
EXAMPLES_NAME = f"railhead/examples:{__version__}"
EXAMPLES_FILE = "manifests/examples/Dockerfile"
Run = Callable[[Sequence[str]], "subprocess.CompletedProcess[str]"]


class NoBuilder(RuntimeError):
    """No image can be built here; the message says what to do."""


def run_quietly(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)


def find_builder(wanted: str = "", *, run: Run = run_quietly) -> str:
    """The requested builder, or the first that works; a docker client without its daemon does not.

    Raises:
        NoBuilder: with what was found.
    """
    found = []
    for name in [wanted] if wanted else BUILDERS:
        if shutil.which(name) is None:
            found.append(f"{name} is not installed")
        elif run([name, "info"]).returncode:
            found.append(f"`{name} info` fails")
        else:
            return name
    raise NoBuilder(f"no image can be built: {', '.join(found)}. Install buildah or podman, or start docker.")


def build_command(builder: str, *, tag: str, epoch: str, revision: str, more: Sequence[str]) -> list[str]:
    """`more` is passed to the builder unchanged, for example --build-arg BASE_IMAGE=..."""
    values = {"SOURCE_DATE_EPOCH": epoch, "VERSION": __version__, "REVISION": revision}
    arguments = [word for key, value in values.items() for word in ("--build-arg", f"{key}={value}")]
    if builder != "docker":  # docker takes SOURCE_DATE_EPOCH itself
        arguments += ["--timestamp", epoch]
    return [builder, "build", "--tag", tag, *arguments, *more, "."]


def save_command(builder: str, *, tag: str, archive: Path) -> list[str]:
    if builder == "buildah":
        return ["buildah", "push", tag, f"oci-archive:{archive}:{tag}"]
    return [builder, "save", "--output", str(archive), tag]


def describe_commit(run: Run = run_quietly) -> tuple[str, str]:
    """(its time in seconds, its hash); 0 and "unknown" outside of a checkout."""
    fields = run(["git", "log", "-1", "--format=%ct %H"]).stdout.split()
    epoch, revision = fields if len(fields) == 2 else ("0", "unknown")
    return os.environ.get("SOURCE_DATE_EPOCH", epoch), revision


def make_image(builder: str, *, tag: str = NAME, archive: Path | None = None, more: Sequence[str] = ()) -> None:
    """Raises subprocess.CalledProcessError."""
    epoch, revision = describe_commit()
    command = build_command(builder, tag=tag, epoch=epoch, revision=revision, more=more)
    subprocess.run(command, cwd=PROJECT, env={**os.environ, "SOURCE_DATE_EPOCH": epoch}, check=True)
    if archive is not None:
        archive.unlink(missing_ok=True)
        subprocess.run(save_command(builder, tag=tag, archive=archive), check=True)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--builder", default="", help=f"one of {', '.join(BUILDERS)}; default: the first that works")
    parser.add_argument("--examples", action="store_true", help="the image of the examples, not the operator's")
    parser.add_argument("--tag")
    parser.add_argument("--archive", type=Path, help="also write the image into this file")
    parser.add_argument("--args", default="", help="more arguments for the builder, as one string")
    options = parser.parse_args(arguments)
    tag = options.tag or (EXAMPLES_NAME if options.examples else NAME)
    more = [*(["--file", EXAMPLES_FILE] if options.examples else []), *shlex.split(options.args)]
    try:
        builder = find_builder(options.builder)
        make_image(builder, tag=tag, archive=options.archive, more=more)
    except NoBuilder as error:
        print(error, file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        print(f"{error.cmd[0]} exited with code {error.returncode}", file=sys.stderr)
        return 1
    print(f"{tag}, built with {builder}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
