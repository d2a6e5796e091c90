"""The versions of `pytest --kubernetes` are those that their Go modules pin."""

from __future__ import annotations

import pytest
from tools.go_program import SOURCES, NotBuilt
from tools.other_kubernetes import VERSIONS, module_of, resolve_kubernetes


@pytest.mark.parametrize(("minor", "version"), VERSIONS.items())
def test_each_version_is_the_one_its_module_builds(minor: str, version: str) -> None:
    lines = (SOURCES / module_of(minor).folder / "go.mod").read_text().splitlines()
    assert any(line.split()[:2] == ["k8s.io/kubernetes", f"v{version}"] for line in lines)


def test_a_version_that_is_not_pinned_is_refused_with_those_that_are() -> None:
    with pytest.raises(NotBuilt, match=r"--kubernetes 1\.3: tools/go pins only 1\.34, 1\.37"):
        resolve_kubernetes("1.3", print)
