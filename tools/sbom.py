"""`make sbom`: what the operator's image contains besides its base, as a CycloneDX file.

The operator is installed from its wheel, with the extra `operator` and the pinned versions, into its own
environment, as in the Dockerfile, and cyclonedx-bom, the tool of that format, describes it. It stays beside the
actions that scan images: its file is one of the release, has a checksum, and is the same in each build of a commit,
which `make release TWICE=1` compares; buildx keeps its own in the registry, and syft's has times and random numbers.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.image import describe_commit

from railhead._version import __version__

PROJECT = Path(__file__).resolve().parents[1]
CYCLONEDX_VERSION = "7.5.0"
BIN = Path(sys.executable).parent


def build_distributions(folder: Path, *, epoch: int) -> tuple[Path, Path]:
    """The wheel and the sdist that it is built from. Raises subprocess.CalledProcessError."""
    command = [str(BIN / "uv"), "build", "--quiet", "--out-dir", str(folder), "."]
    subprocess.run(command, cwd=PROJECT, env={**os.environ, "SOURCE_DATE_EPOCH": str(epoch)}, check=True)
    [wheel] = folder.glob(f"railhead_train-{__version__}-*.whl")
    return wheel, folder / f"railhead_train-{__version__}.tar.gz"


def write_sbom(wheel: Path, target: Path) -> None:
    """Raises subprocess.CalledProcessError."""
    with tempfile.TemporaryDirectory() as name:
        environment = Path(name) / "venv"
        python = environment / "bin" / "python"
        uv = str(BIN / "uv")
        subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, str(environment)], check=True)
        install = [uv, "pip", "install", "--quiet", "--python", str(python), "--constraint", "constraints.txt"]
        subprocess.run([*install, f"{wheel}[operator]"], cwd=PROJECT, check=True)
        # It names the folder of the wheel, which differs from one build to the next.
        for file in environment.glob("lib/python*/site-packages/railhead_train-*.dist-info/direct_url.json"):
            file.unlink()
        # In its own environment: the tool needs more packages than the operator has.
        tool = [uv, "tool", "run", "--quiet", "--from", f"cyclonedx-bom=={CYCLONEDX_VERSION}", "cyclonedx-py"]
        describe = [*tool, "environment", "--output-reproducible", "--output-format", "JSON"]
        subprocess.run([*describe, "--output-file", str(target), str(python)], check=True)


def main() -> int:
    folder = PROJECT / "build" / "release"
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"railhead-{__version__}.cdx.json"
    with tempfile.TemporaryDirectory() as name:
        wheel, _ = build_distributions(Path(name), epoch=int(describe_commit()[0]))
        write_sbom(wheel, target)
    print(target.relative_to(PROJECT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
