"""Writes the manifests from the chart: operator.yaml of each kustomize overlay, and install.yaml.

An overlay is the chart with the values.yaml next to its kustomization.yaml;
install.yaml is the base and the overlay `default` in one file.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tools.go_program import NotBuilt
from tools.helm import resolve_helm

PROJECT = Path(__file__).resolve().parents[1]
CHART = PROJECT / "charts" / "railhead"
MANIFESTS = PROJECT / "manifests"
CRD = CHART / "files" / "crds" / "railhead.dev_trainjobs.yaml"
NAMESPACE = "railhead-system"
HEADER = "# Rendered from charts/railhead by `make manifests`; do not edit.\n"
# Applies only to what Helm installs.
HELMS = re.compile(r"^(# Source: .*| *(helm\.sh/chart|app\.kubernetes\.io/managed-by): .*)\n", re.MULTILINE)


class NotRendered(RuntimeError):
    """helm failed; the message is its stderr."""


def render(helm: Path, values: Path) -> str:
    """The operator of one overlay. Raises NotRendered."""
    command = [str(helm), "template", "railhead", str(CHART), "-n", NAMESPACE, "-f", str(values)]
    done = subprocess.run([*command, "--set", "crds.enabled=false"], capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotRendered(f"{values}: {done.stderr.strip()}")
    return HEADER + HELMS.sub("", done.stdout)


def build_all(helm: Path) -> Iterator[tuple[Path, str]]:
    """Every generated file with its text. Raises NotRendered."""
    rendered = {v.parent.name: render(helm, v) for v in sorted(MANIFESTS.glob("overlays/*/values.yaml"))}
    for overlay, text in rendered.items():
        yield MANIFESTS / "overlays" / overlay / "operator.yaml", text
    base = f"---\n{(MANIFESTS / 'base' / 'namespace.yaml').read_text()}---\n{CRD.read_text()}"
    yield MANIFESTS / "install.yaml", HEADER + base + rendered["default"].removeprefix(HEADER)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    is_stale = False
    try:
        for path, text in build_all(resolve_helm(lambda text: print(text, file=sys.stderr, flush=True))):
            is_fresh = path.exists() and path.read_text() == text
            if options.check and not is_fresh:
                print(f"{path.relative_to(PROJECT)} is stale: run `make generate`", file=sys.stderr)
                is_stale = True
            elif not is_fresh:
                path.write_text(text)
    except (NotBuilt, NotRendered) as error:
        print(error, file=sys.stderr)
        return 1
    return 1 if is_stale else 0


if __name__ == "__main__":
    sys.exit(main())
