"""`make publish` against a package index and a registry on this machine, and what comes back from there."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from tools.crane import resolve_crane
from tools.debian_image import find_obstacle
from tools.helm import resolve_helm
from tools.sbom import BIN

from railhead._version import __version__
from railhead.local.addresses import free_port
from railhead.local.control_plane import ControlPlane
from tests.loopback import serve, serve_registry

PROJECT = Path(__file__).resolve().parents[3]
PYPISERVER = "pypiserver[passlib]==2.4.2"
PASSWORD = "not-in-any-output"
CHART = f"railhead-{__version__}.tgz"
pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Servers:
    """An index and a registry with nothing in them, by their addresses, and the folder of the index."""

    index: str
    registry: str
    packages: Path

    @property
    def simple(self) -> str:
        return f"http://{self.index}/simple/"

    @property
    def chart(self) -> str:
        return f"oci://{self.registry}/a/charts/railhead"

    def is_empty(self) -> bool:
        crane = [str(resolve_crane(print)), "catalog", self.registry]
        catalog = subprocess.run(crane, check=True, capture_output=True, text=True).stdout
        return not catalog.strip() and not list(self.packages.iterdir())


@dataclass(frozen=True)
class Checkout:
    """A repository with one commit, the files of this tree, and their release."""

    folder: Path

    @property
    def release(self) -> Path:
        return self.folder / "build" / "release"

    def git(self, *arguments: str) -> str:
        identity = ("-c", "user.name=a", "-c", "user.email=a@example.com")
        command = ["git", *identity, *arguments]
        return subprocess.run(command, cwd=self.folder, check=True, capture_output=True, text=True).stdout

    def make(self, *arguments: str, variables: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join((str(self.folder / "operator"), str(self.folder)))
        environment = {**os.environ, "PYTHONPATH": path, **(variables or {})}
        # The environment is that of the tests, whatever the times of the copied files.
        command = ["make", "--no-print-directory", "--old-file=.venv/.ready", *arguments]
        return subprocess.run(
            command, cwd=self.folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def publish(self, servers: Servers, *more: str, password: str = PASSWORD) -> tuple[int, str]:
        """Returns the exit code and the output, which never has the password."""
        target = (f"REGISTRY={servers.registry}/a", f"INDEX={servers.simple}", f"UPLOAD=http://{servers.index}/")
        variables = {"TWINE_USERNAME": "a", "TWINE_PASSWORD": password}
        done = self.make("publish", *target, "PLAIN_HTTP=1", *more, variables=variables)
        assert password not in done.stdout
        return done.returncode, done.stdout


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    checkout = Checkout(tmp_path_factory.mktemp("released") / "checkout")
    list_files = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(list_files, cwd=PROJECT, check=True, capture_output=True, text=True).stdout
    for name in filter(os.path.lexists, map(PROJECT.joinpath, names.rstrip("\0").split("\0"))):
        target = checkout.folder / name.relative_to(PROJECT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(name, target, follow_symlinks=False)
    (checkout.folder / ".venv").unlink(missing_ok=True)
    (checkout.folder / ".venv").symlink_to(sys.prefix)
    checkout.git("init", "--quiet")
    checkout.git("add", ".")
    checkout.git("commit", "--quiet", "-m", "first")
    checkout.git("tag", f"v{__version__}")
    done = checkout.make("release")
    assert done.returncode == 0, done.stdout
    return checkout


@pytest.fixture
def checkout(released: Checkout, tmp_path: Path) -> Checkout:
    return Checkout(shutil.copytree(released.folder, tmp_path / "checkout", symlinks=True))


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    packages, passwords = tmp_path / "packages", tmp_path / "htpasswd"
    packages.mkdir()
    digest = base64.b64encode(hashlib.sha1(PASSWORD.encode()).digest()).decode()
    passwords.write_text(f"a:{{SHA}}{digest}\n")
    port = free_port()
    uv_run = [str(BIN / "uv"), "tool", "run", "--quiet", "--from", PYPISERVER]
    pypi = [*uv_run, "pypi-server", "run", "--disable-fallback", "--authenticate", "update"]
    pypi += ["--interface", "127.0.0.1", "--port", str(port), "--passwords", str(passwords), str(packages)]
    index = f"127.0.0.1:{port}"
    with serve_registry() as registry, serve(pypi, f"http://{index}/"):
        yield Servers(index, registry, packages)


def test_a_published_release_can_be_installed(
    checkout: Checkout, servers: Servers, control_plane: ControlPlane, tmp_path: Path
) -> None:
    assert checkout.publish(servers, "DRY_RUN=1")[0] == 0
    assert servers.is_empty()

    code, output = checkout.publish(servers)
    assert code == 0, output
    package = [f"railhead_train-{__version__}-py3-none-any.whl", f"railhead_train-{__version__}.tar.gz"]
    assert {file.name: file.read_bytes() for file in servers.packages.iterdir()} == {
        name: (checkout.release / name).read_bytes() for name in package
    }

    repositories = ["a/charts/railhead"]
    if find_obstacle() is None:
        assert digest_in_registry(servers, "a/operator") == digest_in_archive(checkout)
        repositories.insert(0, "a/operator")
    # What the workflow attests.
    assert (checkout.release.parent / "pushed.txt").read_text().splitlines() == [
        f"{digest_in_registry(servers, each).removeprefix('sha256:')}  {servers.registry}/{each}"
        for each in repositories
    ]

    helm, back = str(resolve_helm(print)), tmp_path / "back"
    back.mkdir()
    chart = [servers.chart, "--version", __version__, "--plain-http"]
    subprocess.run([helm, "pull", *chart, "--destination", str(back)], check=True)
    assert (back / CHART).read_bytes() == (checkout.release / CHART).read_bytes()
    install = [helm, "install", "railhead", *chart, "--namespace", "default", "--dry-run=server"]
    install += ["--kubeconfig", str(control_plane.kubeconfig)]
    rendered = subprocess.run(install, check=False, capture_output=True, text=True)
    assert f'image: "railhead/operator:{__version__}"' in rendered.stdout, rendered.stderr

    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-cache-dir", "--target", str(back)]
    without_local_wheels = {**os.environ, "PIP_FIND_LINKS": "", "PIP_CONFIG_FILE": os.devnull}
    subprocess.run(
        [*pip, "--index-url", servers.simple, f"railhead-train=={__version__}"], env=without_local_wheels, check=True
    )
    version = "import railhead; print(railhead.__file__, railhead.__version__)"
    done = subprocess.run(
        [sys.executable, "-c", version], env={**os.environ, "PYTHONPATH": str(back)}, capture_output=True, text=True
    )
    assert done.stdout.split() == [str(back / "railhead" / "__init__.py"), __version__], done.stderr

    code, output = checkout.publish(servers)
    assert code and f"has railhead-train {__version__} already" in output
    for file in servers.packages.iterdir():  # as if only the index had lost it
        file.unlink()
    code, output = checkout.publish(servers)
    assert code and " already" in output and "railhead-train" not in output
    assert not list(servers.packages.iterdir())


def digest_in_registry(servers: Servers, repository: str) -> str:
    command = [str(resolve_crane(print)), "digest", f"{servers.registry}/{repository}:{__version__}"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def digest_in_archive(checkout: Checkout) -> str:
    with tarfile.open(checkout.release / f"railhead-operator-{__version__}.tar") as tar:
        index = tar.extractfile("index.json")
        assert index is not None
        [manifest] = json.load(index)["manifests"]
    return str(manifest["digest"])


def test_a_refusal_pushes_nothing(checkout: Checkout, servers: Servers) -> None:
    chart = checkout.release / CHART
    built = chart.read_bytes()
    chart.write_bytes(built + b"\0")
    code, output = checkout.publish(servers)
    assert code and f"{CHART} is not as SHA256SUMS says: run make release" in output
    chart.write_bytes(built)

    checkout.git("tag", "--delete", f"v{__version__}")
    code, output = checkout.publish(servers)
    assert code and f"this commit has no tag, not v{__version__}" in output
    checkout.git("tag", f"v{__version__}")

    (checkout.folder / "new").touch()
    code, output = checkout.publish(servers)
    assert code and "the tree is dirty:\n?? new" in output
    assert servers.is_empty()


def test_a_wrong_password_pushes_nothing(checkout: Checkout, servers: Servers) -> None:
    code, output = checkout.publish(servers, password="not-the-password")
    assert code and "403 Forbidden" in output
    assert servers.is_empty()
