"""The quick starts, step by step: each shell block of a page runs in order in one shell, and the text block after it is
what it prints, where `...` stands for what varies.

A comment `<!-- not run: REASON -->` before a block keeps it from running.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tools.helm import resolve_helm

from railhead.local.control_plane.binaries import resolve
from railhead.local.session import Session, default_capacity

PROJECT = Path(__file__).resolve().parents[2]
PAGES = PROJECT / "docs" / "get-started"
FENCE = re.compile(r"^(?:<!-- not run: (?P<reason>[^>]+) -->\n)?```(?P<language>\w+)\n(?P<text>.*?)^```$", re.M | re.S)
DURATION = re.compile(r"\b(?:\d+\.\d s|(?:\d+m)?\d+s|\d+m)(?!\w)")  # such as 1.5 s, 90s, 2m and 2m5s
LONG = 1200
# Pods of local mode share the machine's ports, so the operator listens on its own address.
OWN_ADDRESS = {
    "extraEnv": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
    "extraArgs": ["--report-listen=$(POD_IP):8443", "--probe-listen=$(POD_IP):8080"],
}


@dataclass(frozen=True)
class Step:
    """A shell block, and what the page says that it prints."""

    command: str
    output: str | None = None


def read_steps(page: str) -> list[Step]:
    """Returns the blocks that run, each with the text block after it."""
    steps: list[Step] = []
    is_run = False
    for block in FENCE.finditer(page):
        if block["language"] == "sh":
            is_run = block["reason"] is None
            if is_run:
                steps.append(Step(block["text"]))
        elif block["language"] == "text" and is_run:
            steps[-1] = Step(steps[-1].command, block["text"])
    return steps


def is_as_described(output: str, described: str) -> bool:
    """Whether the output is the page's; columns may have another width, and times other numbers."""
    wanted = ".*".join(re.escape(part) for part in squeeze(described).split("..."))
    return re.fullmatch(wanted, squeeze(output), re.DOTALL) is not None


def squeeze(text: str) -> str:
    """Returns the text with single spaces, and `N s` for each time."""
    lines = (re.sub(" +", " ", line.strip()) for line in text.strip().splitlines())
    return "\n".join(DURATION.sub("N s", line) for line in lines)


def follow_page(name: str, folder: Path, variables: dict[str, str]) -> None:
    """Runs the page's blocks in one shell, and compares what each prints."""
    steps = read_steps((PAGES / name).read_text())
    assert steps
    outputs = [folder / f"step-{number}" for number in range(len(steps))]
    script = "set -e -o pipefail\n" + "".join(
        f"exec > {shlex.quote(str(output))} 2>&1\n{step.command}\n" for step, output in zip(steps, outputs, strict=True)
    )
    done = subprocess.run(
        ["bash", "-c", script], cwd=PROJECT, env={**os.environ, **variables}, timeout=LONG, check=False
    )
    for step, path in zip(steps, outputs, strict=True):
        output = path.read_text() if path.exists() else "(did not run)"
        if not path.exists() or (step.output is not None and not is_as_described(output, step.output)):
            pytest.fail(
                f"exit code {done.returncode}; {name}:\n{step.command}\nprinted:\n{output}\nnot:\n{step.output}"
            )
    assert done.returncode == 0, outputs[-1].read_text()


@pytest.fixture
def home(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The variables of a user whose home is empty but for the caches; ends what a page leaves running."""
    caches = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    yield {"HOME": str(tmp_path / "home"), "XDG_CACHE_HOME": caches, "PYTHONPATH": f"{PROJECT}/operator:{PROJECT}"}
    Session(tmp_path / "home" / ".railhead" / "local").down()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A cluster without Railhead, with kubectl and helm on the PATH: variables for a user's shell."""
    session = Session(tmp_path / "cluster")
    session.up(default_capacity(), binaries=resolve(print), echo=print, is_ours_only=True, has_operator=False)
    values = tmp_path / "own-address.yaml"
    values.write_text(json.dumps(OWN_ADDRESS))
    helm = tmp_path / "bin" / "helm"
    helm.parent.mkdir()
    helm.write_text(
        f'#!/bin/sh\n[ "$1" = install ] && set -- "$@" -f {values}\nexec {resolve_helm(print)} "$@"\n', encoding="utf-8"
    )
    helm.chmod(0o755)
    path = f"{helm.parent}:{session.bin}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    yield {"KUBECONFIG": str(session.kubeconfig), "PATH": path}
    session.down()


@pytest.mark.slow
@pytest.mark.parametrize("page", ["laptop.md", "existing-code.md", "gpu.md"])
def test_a_quick_start_on_one_machine_prints_what_its_page_shows(
    page: str, tmp_path: Path, home: dict[str, str]
) -> None:
    follow_page(page, tmp_path, home)


@pytest.mark.slow
@pytest.mark.parametrize("page", ["cluster.md", "kind.md"])
def test_a_quick_start_on_a_cluster_prints_what_its_page_shows(
    page: str, tmp_path: Path, cluster: dict[str, str]
) -> None:
    follow_page(page, tmp_path, cluster)


PAGE = """
```sh
first
```

```text
one   two
...
end
```

<!-- not run: it needs a registry -->
```sh
second
```

```text
nothing
```

```sh
third
```
"""


def test_blocks_that_are_not_run_have_a_reason_and_no_output() -> None:
    assert read_steps(PAGE) == [Step("first\n", "one   two\n...\nend\n"), Step("third\n")]


@pytest.mark.parametrize(
    ("output", "is_same"),
    [("one  two\nx\ny\nend\n", True), ("one two\n\nend", True), ("one two\nx\nend\nmore", False), ("one\nend", False)],
)
def test_output_is_compared_line_by_line_except_for_dots(output: str, is_same: bool) -> None:
    assert is_as_described(output, "one   two\n...\nend\n") is is_same
