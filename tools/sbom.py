"""`make sbom`: what the operator's image contains besides its base, as a CycloneDX file.

The operator is installed from its wheel, with the extra `operator` and the pinned versions, into its own
environment, as in the Dockerfile, and the file describes that environment.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from railhead import __version__

PROJECT = Path(__file__).resolve().parents[1]
CYCLONEDX_VERSION = "7.5.0"
BIN = Path(sys.executable).parent


def build_wheel(folder: Path) -> Path:
    """Builds it into the folder. Raises subprocess.CalledProcessError."""
    command = [str(BIN / "uv"), "build", "--quiet", "--wheel", "--out-dir", str(folder), "."]
    subprocess.run(command, cwd=PROJECT, check=True)
    [wheel] = folder.glob(f"railhead_train-{__version__}-*.whl")
    return wheel


def write_sbom(wheel: Path, target: Path) -> None:
    """Raises subprocess.CalledProcessError."""
    with tempfile.TemporaryDirectory() as name:
        environment = Path(name) / "venv"
        python = environment / "bin" / "python"
        uv = str(BIN / "uv")
        subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, str(environment)], check=True)
        install = [uv, "pip", "install", "--quiet", "--python", str(python), "--constraint", "constraints.txt"]
        subprocess.run([*install, f"{wheel}[operator]"], cwd=PROJECT, check=True)
        # In its own environment: the tool needs more packages than the operator has.
        tool = [uv, "tool", "run", "--quiet", "--from", f"cyclonedx-bom=={CYCLONEDX_VERSION}", "cyclonedx-py"]
        describe = [*tool, "environment", "--output-reproducible", "--output-format", "JSON"]
        subprocess.run([*describe, "--output-file", str(target), str(python)], check=True)


def main() -> int:
    dist = PROJECT / "dist"
    dist.mkdir(exist_ok=True)
    target = dist / f"railhead-{__version__}.cdx.json"
    with tempfile.TemporaryDirectory() as folder:
        write_sbom(build_wheel(Path(folder)), target)
    print(target.relative_to(PROJECT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
