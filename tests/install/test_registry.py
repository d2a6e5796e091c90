"""Chart and image of a release, installed from a registry: containerd pulls the operator's image itself."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tools.crane import resolve_crane
from tools.debian_image import find_obstacle
from tools.image import describe_commit
from tools.publish import Programs, Target, plan_steps
from tools.release import build_image, package_chart
from tools.sbom import build_distributions

from railhead._version import __version__
from tests.e2e.jobs import make_job, with_config
from tests.install.release import Releases
from tests.loopback import serve_registry

HOME = "railhead-system"
pytestmark = [pytest.mark.node, pytest.mark.slow]


def test_a_release_from_a_registry_runs_a_job(releases: Releases, tmp_path: Path) -> None:
    if releases.target.volume_folder is None:
        pytest.skip("only a node on this machine has a containerd that reaches a registry on loopback")
    if find_obstacle() is not None:
        pytest.skip(f"no image can be built here: {find_obstacle()}")
    folder = tmp_path / "release"
    folder.mkdir()
    build_distributions(folder, epoch=int(describe_commit()[0]))
    package_chart(folder)
    build_image(folder, more=())
    with serve_registry() as registry:
        target = Target(f"{registry}/a", index="", upload="", plain_http=True)
        programs = Programs(helm=str(releases.helm), crane=str(resolve_crane(print)))
        for step in plan_steps(programs, target, folder, __version__):
            if step.repository:
                subprocess.run(step.command, check=True)
        chart = [f"{target.charts}/railhead", "--version", __version__, "--plain-http"]
        options = ["--namespace", HOME, "--create-namespace", "--wait", "--timeout", "600s"]
        image = {"image": {"repository": f"{registry}/a/operator"}}
        releases("install", "railhead", *chart, *options, values={**releases.target.values, **image})
        releases.installed.append(("railhead", HOME))
        digest = subprocess.run(
            [programs.crane, "digest", f"{registry}/a/operator:{__version__}"],
            check=True,
            capture_output=True,
            text=True,
        )
    [operator] = releases.operator_pods(HOME)
    [container] = operator["status"]["containerStatuses"]
    assert container["imageID"] == f"{registry}/a/operator@{digest.stdout.strip()}"
    jobs = releases.make_namespace("jobs")
    jobs.apply(with_config(make_job("pulled", jobs.image), epochs=1))
    assert jobs.wait_end("pulled")["phase"] == "Succeeded", jobs.tell("pulled")
