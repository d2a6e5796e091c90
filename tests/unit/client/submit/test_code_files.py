"""Which files of a folder are sent with a job, and which are refused."""

from __future__ import annotations

import subprocess
from pathlib import Path, PurePosixPath, PureWindowsPath

import pytest

from railhead.client.exit_codes import ClientError, ExitCode
from railhead.client.submit import code_files
from railhead.client.submit.code_files import (
    find_secret,
    format_size,
    is_secret_name,
    list_paths,
    name_module,
    read_code,
)


def write(folder: Path, *paths: str, content: str = "x = 1\n") -> None:
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(content)


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True)


def refuse(folder: Path, *includes: str) -> str:
    with pytest.raises(ClientError) as error:
        read_code(folder, includes)
    assert error.value.code == ExitCode.USAGE
    return str(error.value)


@pytest.mark.parametrize("has_repository", [True, False])
def test_files_that_git_ignores_are_left_out(has_repository: bool, tmp_path: Path) -> None:
    write(
        tmp_path, "train.py", "pkg/model.py", "data/big.bin", "pkg/__pycache__/model.pyc", "notes/a.md", "pkg/notes/b"
    )
    (tmp_path / ".gitignore").write_text("__pycache__/\n/data\n")
    (tmp_path / ".railheadignore").write_text("/notes/\n.*ignore\n")
    if has_repository:
        git(tmp_path, "init", "-q")
    assert [each.path for each in read_code(tmp_path, [])] == ["pkg/model.py", "pkg/notes/b", "train.py"]
    assert not (tmp_path / ".git").exists() or has_repository


def test_a_folder_of_a_repository_has_its_own_root(tmp_path: Path) -> None:
    write(tmp_path, "other.py", "src/train.py", "src/data/a", "src/deep/data/b")
    (tmp_path / "src" / ".railheadignore").write_text("/data\n.railheadignore\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A")
    assert list_paths(tmp_path / "src") == ["deep/data/b", "train.py"]


def test_a_tracked_file_is_sent_although_it_is_ignored_and_a_deleted_one_is_not(tmp_path: Path) -> None:
    write(tmp_path, "train.py", "gone.py", "kept.dat")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A")
    (tmp_path / ".gitignore").write_text("*.dat\n")
    (tmp_path / "gone.py").unlink()
    assert list_paths(tmp_path) == [".gitignore", "kept.dat", "train.py"]


def test_the_repository_of_a_git_hook_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "train.py")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    assert list_paths(tmp_path) == ["train.py"]


@pytest.mark.parametrize(
    "name",
    ["a b.py", "größe.py", "line\nbreak.py", "..hidden", "-$(id).py", "tab\t.py", "quote'.py", "d/" * 99 + "abc"],
)
def test_a_name_that_a_pod_cannot_have_is_refused(name: str, tmp_path: Path) -> None:
    write(tmp_path, "train.py", name)
    message = refuse(tmp_path)
    assert "paths in pods have letters, digits and -_. only" in message
    assert len(message.splitlines()) == 2


def test_a_long_path_is_sent(tmp_path: Path) -> None:
    write(tmp_path, "d/" * 99 + "ab")
    assert len(read_code(tmp_path, [])[0].path) == 200


@pytest.mark.parametrize(
    "path",
    [
        ".env",
        ".env.local",
        ".ENV",
        "deploy/key.pem",
        "id_ed25519",
        ".ssh/config",
        "my-kubeconfig.yaml",
        ".aws/x",
        "_netrc",
    ],
)
def test_a_file_with_the_name_of_credentials_needs_include(path: str, tmp_path: Path) -> None:
    write(tmp_path, "train.py", path)
    assert f"{path} has the name of a file with credentials; list it in .railheadignore, or add --include" in refuse(
        tmp_path
    )
    assert [each.path for each in read_code(tmp_path, [path])] == sorted(["train.py", path])


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        ("-----BEGIN RSA PRIVATE KEY-----\nMII", "a private key"),
        ('{"private_key": "-----BEGIN PRIVATE KEY-----\\nMII"}', "a private key"),
        ("users:\n- user:\n    client-key-data: LS0t", "a kubeconfig"),
        ("aws_secret_access_key = " + "A" * 40, "AWS credentials"),
        ("token = 'hf_" + "a" * 34 + "'", "an access token"),
        ("KEY = 'sk-proj-" + "a1" * 20 + "'", "an access token"),
        ("glpat-" + "a" * 20, "an access token"),
        ("xoxb-1234567890-" + "a" * 20, "an access token"),
        ("AIza" + "a" * 35, "an access token"),
        ("gho_" + "a" * 36, "an access token"),
        ("npm_" + "a" * 36, "an access token"),
        ("id = 'AKIA" + "A2" * 8 + "'", "an AWS access key"),
        ("WANDB_API_KEY: " + "0a" * 20, "a key of Weights & Biases"),
        ("wandb.login(key='" + "0a" * 20 + "')", "a key of Weights & Biases"),
        ("DefaultEndpointsProtocol=https;AccountKey=" + "a" * 86 + "==", "a key of Azure storage"),
        ("\0".join("token = hf_" + "a" * 34), "an access token"),
    ],
)
def test_a_file_that_contains_credentials_needs_include(content: str, kind: str, tmp_path: Path) -> None:
    write(tmp_path, "train.py")
    write(tmp_path, "pkg/config.py", content=content)
    assert f"pkg/config.py contains {kind}; list it in .railheadignore, or add --include" in refuse(tmp_path)
    assert len(read_code(tmp_path, ["pkg/conf*"])) == 2


@pytest.mark.parametrize(
    "content",
    [
        "aws_secret_access_key=os.environ['AWS_SECRET_ACCESS_KEY']",
        "-----BEGIN CERTIFICATE-----",
        "hf_token",
        "sk-learn-is-the-name-of-a-package-here",
        "0a" * 20,
    ],
)
def test_code_that_reads_credentials_has_none(content: str) -> None:
    assert find_secret(content.encode()) == ""


@pytest.mark.parametrize(
    "name", ["environment.py", "keys.py", "train.py", "credentials.py", "secrets.py", "monkey.txt"]
)
def test_the_names_of_modules_are_no_secrets(name: str) -> None:
    assert not is_secret_name(PurePosixPath(name))


def test_links_are_followed_within_the_folder_only(tmp_path: Path) -> None:
    folder = tmp_path / "code"
    write(folder, "train.py", "pkg/real.py")
    write(tmp_path, "outside.py")
    (folder / "link.py").symlink_to("pkg/real.py")
    assert {each.path: each.content for each in read_code(folder, [])}["link.py"] == b"x = 1\n"
    (folder / "leaves.py").symlink_to("../outside.py")
    assert "leaves.py links to a file outside of the folder" in refuse(folder)
    assert len(read_code(folder, ["leaves.py"])) == 4


def test_a_link_does_not_hide_a_secret(tmp_path: Path) -> None:
    write(tmp_path, "train.py", ".env")
    (tmp_path / "harmless.txt").symlink_to(".env")
    assert "harmless.txt has the name of a file with credentials" in refuse(tmp_path)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "train.py", "pkg/a.py", "nested/b.py")
    (tmp_path / "broken").symlink_to("nothing")
    (tmp_path / "folder").symlink_to("pkg")
    git(tmp_path / "nested", "init", "-q")
    git(tmp_path / "nested", "add", "b.py")
    git(tmp_path / "nested", "-c", "user.name=a", "-c", "user.email=a", "commit", "-q", "-m", "x")
    message = refuse(tmp_path, "broken", "folder")
    assert "broken is no file, or a link to nothing" in message
    assert "folder is a link to a folder" in message
    assert "nested is another git repository" in message
    (tmp_path / ".railheadignore").write_text("nested/\nbroken\nfolder\n")
    assert [each.path for each in read_code(tmp_path, [])] == [".railheadignore", "pkg/a.py", "train.py"]


def test_too_much_is_refused_with_the_choices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "train.py", "small.py")
    write(tmp_path, "large.bin", content="x" * 2000)
    monkeypatch.setattr(code_files, "MOST_FILES", 3)
    monkeypatch.setattr(code_files, "MOST_BYTES", 2012)
    assert len(read_code(tmp_path, [])) == 3
    write(tmp_path, "one.py", content="")
    message = refuse(tmp_path)
    assert "has 4 files with 2.0 KiB" in message
    assert "spec.source.git" in message
    assert "the largest are large.bin (2.0 KiB)" in message
    (tmp_path / "one.py").unlink()
    write(tmp_path, "small.py", content="x = 12\n")
    assert "has 3 files" in refuse(tmp_path)


def test_the_limits_are_those_of_a_config_map() -> None:
    assert (code_files.MOST_FILES, code_files.MOST_BYTES) == (128, 921_600)


def test_an_include_that_matches_nothing_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "train.py")
    assert "--include .env matches no file" in refuse(tmp_path, ".env")


def test_a_folder_without_files_is_refused(tmp_path: Path) -> None:
    assert "has no files" in refuse(tmp_path)
    assert "there is no such folder" in refuse(tmp_path / "nothing")


def test_without_git_the_reason_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "--code needs git" in refuse(tmp_path)


def test_an_error_of_git_is_shown(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / ".git" / "config").write_text("[core\n")
    assert "git cannot list the files: fatal: bad config" in refuse(tmp_path)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    write(tmp_path, "train.py")
    monkeypatch.setattr(Path, "read_bytes", fail)
    assert refuse(tmp_path) == "train.py cannot be read: Permission denied"


def test_the_module_of_a_script_is_its_path_in_the_folder() -> None:
    assert name_module(PurePosixPath("/a/train.py"), PurePosixPath("/a")) == "train"
    assert name_module(PurePosixPath("/a/src/pkg/train.py"), PurePosixPath("/a")) == "src.pkg.train"
    assert name_module(PureWindowsPath("C:\\Code\\pkg\\train.py"), PureWindowsPath("c:\\code")) == "pkg.train"


@pytest.mark.parametrize(
    ("script", "message"),
    [("/b/train.py", "is not in the folder of --code"), ("/a/my-code/train.py", "my-code.train is not a module name")],
)
def test_a_script_that_cannot_be_imported_is_refused(script: str, message: str) -> None:
    with pytest.raises(ClientError, match=message):
        name_module(PurePosixPath(script), PurePosixPath("/a"))


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (1024**2, "1.0 MiB"), (7 << 31, "14.0 GiB")]
)
def test_a_size_has_a_unit(size: int, text: str) -> None:
    assert format_size(size) == text
