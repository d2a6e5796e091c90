"""What `make publish` refuses, what it runs, and that no credential gets into a command or a message."""

from __future__ import annotations

import subprocess
import tarfile
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tools import publish
from tools.publish import Programs, Refused, Target
from tools.release import write_checksums

TARGET = Target("registry.test/railhead", index="https://index.test/simple", upload="https://index.test/")


def git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--quiet")
    (tmp_path / "file").write_text("a")
    git(tmp_path, "add", "file")
    git(tmp_path, "commit", "--quiet", "-m", "first")
    return tmp_path


def check_tree(checkout: Path, version: str = "0.1.0") -> None:
    def run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False)

    publish.check_tree(version, run)


def test_a_tree_without_the_versions_tag_is_refused(checkout: Path) -> None:
    with pytest.raises(Refused, match=r"the version is 0\.1\.0, and this commit has no tag, not v0\.1\.0"):
        check_tree(checkout)
    git(checkout, "tag", "v0.2.0")
    with pytest.raises(Refused, match=r"this commit has v0\.2\.0, not v0\.1\.0"):
        check_tree(checkout)
    git(checkout, "tag", "v0.1.0")
    check_tree(checkout)


@pytest.mark.parametrize("name", ["file", "new"])
def test_a_dirty_tree_is_refused(checkout: Path, name: str) -> None:
    git(checkout, "tag", "v0.1.0")
    (checkout / name).write_text("b")
    with pytest.raises(Refused, match=f"the tree is dirty:\n.*{name}"):
        check_tree(checkout)


def test_a_folder_that_is_no_checkout_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="git status: fatal"):
        check_tree(tmp_path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for file in publish.files_to_upload(tmp_path, "0.1.0"):
        file.write_text(file.name)
    write_checksums(tmp_path)
    return tmp_path


def test_only_files_as_they_were_built_are_published(folder: Path) -> None:
    publish.check_files(folder, "0.1.0")
    with pytest.raises(Refused, match=r"has no railhead-0\.2\.0\.tgz, .*: run"):
        publish.check_files(folder, "0.2.0")
    image = folder / "railhead-operator-0.1.0.tar"
    image.touch()
    with pytest.raises(Refused, match=r"has no railhead-operator-0\.1\.0\.tar: run make release"):
        publish.check_files(folder, "0.1.0")
    image.unlink()
    (folder / "railhead-0.1.0.tgz").write_text("other")
    with pytest.raises(Refused, match=r"railhead-0\.1\.0\.tgz is not as SHA256SUMS says"):
        publish.check_files(folder, "0.1.0")
    (folder / "SHA256SUMS").unlink()
    with pytest.raises(Refused, match="SHA256SUMS is missing: run make release"):
        publish.check_files(folder, "0.1.0")


@pytest.mark.parametrize(
    "target",
    [
        Target("a:b@registry.test", index="https://index.test", upload="https://index.test"),
        Target("registry.test", index="https://a:b@index.test", upload="https://index.test"),
        Target("registry.test", index="https://index.test", upload="https://a:b@index.test"),
    ],
)
def test_an_address_with_credentials_is_refused_without_repeating_them(target: Target) -> None:
    with pytest.raises(Refused, match="an address with credentials") as caught:
        publish.check_target(target)
    assert "a:b" not in str(caught.value)
    publish.check_target(TARGET)


@pytest.fixture
def index() -> Iterator[tuple[str, dict[str, object]]]:
    """Its URL, and the answer that it gives."""
    answer: dict[str, object] = {"status": 200, "body": ""}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(int(str(answer["status"])))
            self.end_headers()
            self.wfile.write(str(answer["body"]).encode())

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/simple", answer
        server.shutdown()
        thread.join()


def test_a_version_that_the_index_has_is_refused(index: tuple[str, dict[str, object]]) -> None:
    url, answer = index
    answer["body"] = "railhead_train-0.1.0-py3-none-any.whl"
    with pytest.raises(Refused, match=r"has railhead-train 0\.1\.0 already"):
        publish.check_index(url, "0.1.0")
    publish.check_index(url, "0.1.1")
    answer.update(status=404, body="")
    publish.check_index(url, "0.1.0")
    answer.update(status=500)
    with pytest.raises(Refused, match="HTTP Error 500"):
        publish.check_index(url, "0.1.0")


def test_a_version_that_the_registry_has_is_refused() -> None:
    def check(code: int, stderr: str) -> None:
        publish.check_registry(
            "helm", TARGET, "0.1.0", lambda command: subprocess.CompletedProcess(command, code, "", stderr)
        )

    with pytest.raises(Refused, match=r"oci://registry\.test/railhead/charts/railhead has version 0\.1\.0 already"):
        check(0, "")
    check(1, "Error: registry.test/railhead/charts/railhead:0.1.0: not found\n")
    with pytest.raises(Refused, match=r"connection refused$"):
        check(1, "dial tcp: connection refused\n")


def test_an_image_that_the_registry_has_is_refused() -> None:
    def check(code: int, stderr: str) -> None:
        publish.check_image(
            "crane", TARGET, "operator:0.1.0", lambda command: subprocess.CompletedProcess(command, code, "", stderr)
        )

    with pytest.raises(Refused, match=r"registry\.test/railhead has operator:0\.1\.0 already"):
        check(0, "")
    check(1, "HEAD https://registry.test/v2/railhead/operator/manifests/0.1.0: unexpected status code 404 Not Found")
    check(1, "GET https://registry.test/v2/railhead/operator/manifests/0.1.0: NAME_UNKNOWN: repository name not known")
    with pytest.raises(Refused, match=r"registry\.test/railhead/operator:0\.1\.0: .* 401 Unauthorized"):
        check(
            1,
            "HEAD https://registry.test/v2/railhead/operator/manifests/0.1.0: unexpected status code 401 Unauthorized",
        )


PROGRAMS = Programs("helm", "crane")


def test_the_package_comes_first_and_the_chart_last(folder: Path) -> None:
    with tarfile.open(folder / "railhead-operator-0.1.0.tar", "w") as tar:
        tar.addfile(tarfile.TarInfo("index.json"))
    with tarfile.open(folder / "railhead-examples-0.1.0.tar", "w") as tar:
        tar.addfile(tarfile.TarInfo("manifest.json"))
    twine, operator, examples, helm = publish.plan_steps(PROGRAMS, TARGET, folder, "0.1.0")
    assert twine.command[-4:-2] == ["--repository-url", "https://index.test/"]
    assert [Path(word).suffix for word in twine.command[-2:]] == [".whl", ".gz"]
    unpacked = folder.with_name("images") / "railhead-operator-0.1.0"
    assert operator.command == ["crane", "push", str(unpacked), "registry.test/railhead/operator:0.1.0"]
    assert (unpacked / "index.json").is_file()
    docker = str(folder / "railhead-examples-0.1.0.tar")
    assert examples.command == ["crane", "push", docker, "registry.test/railhead/examples:0.1.0"]
    assert helm.command == ["helm", "push", str(folder / "railhead-0.1.0.tgz"), "oci://registry.test/railhead/charts"]
    pushed = [step.repository for step in (twine, operator, examples, helm)]
    assert pushed == ["", *(f"registry.test/railhead/{name}" for name in ("operator", "examples", "charts/railhead"))]


def test_the_digests_of_what_was_pushed_are_written_for_the_attestation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("check_tree", "check_files", "check_index", "check_registry", "resolve_helm", "resolve_crane"):
        monkeypatch.setattr(publish, name, lambda *_: None)
    layer, image = "1" * 64, "2" * 64
    pushed = publish.Step(["echo", f"sha256:{layer} pushed; registry.test/a@sha256:{image}"], "registry.test/a")
    monkeypatch.setattr(publish, "plan_steps", lambda *_: [publish.Step(["echo", f"sha256:{layer}"]), pushed])
    folder = tmp_path / "release"
    folder.mkdir()
    publish.publish(TARGET, folder=folder, version="0.1.0", dry_run=True)
    assert (tmp_path / publish.PUSHED).read_text() == ""
    publish.publish(TARGET, folder=folder, version="0.1.0", dry_run=False)
    assert (tmp_path / publish.PUSHED).read_text() == f"{image}  registry.test/a\n"
