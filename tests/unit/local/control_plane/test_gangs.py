"""The options of the gang scheduler follow the version of the API server: another one knows neither gates nor API."""

from __future__ import annotations

from pathlib import Path

import pytest

from railhead.local import LocalError
from railhead.local.control_plane.gangs import find_gang_options

ALPHA = (
    "--feature-gates=GenericWorkload=true,GangScheduling=true,TopologyAwareWorkloadScheduling=true",
    "--runtime-config=scheduling.k8s.io/v1alpha2=true",
)
BETA = (
    "--feature-gates=GenericWorkload=true,TopologyAwareWorkloadScheduling=true",
    "--runtime-config=scheduling.k8s.io/v1beta1=true",
)


def make_api_server(folder: Path, says: str) -> None:
    program = folder / "kube-apiserver"
    program.write_text(f"#!/bin/sh\necho '{says}'\n")
    program.chmod(0o755)


@pytest.mark.parametrize(("version", "options"), [("1.36.3", ALPHA), ("1.37.0-rc.1", BETA), ("1.40.2", BETA)])
def test_the_options_are_those_of_its_version(version: str, options: tuple[str, str], tmp_path: Path) -> None:
    make_api_server(tmp_path, f"Kubernetes v{version}")
    found = find_gang_options(tmp_path)
    assert (found.api_server, found.clients) == (options, options[:1])


def test_an_api_server_without_a_version_is_named(tmp_path: Path) -> None:
    make_api_server(tmp_path, "hello")
    with pytest.raises(LocalError, match="kube-apiserver --version names no version: 'hello"):
        find_gang_options(tmp_path)
