"""Where the control plane's programs come from, in order of preference."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import io
import os
import signal
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from railhead.local.control_plane import binaries
from railhead.local.control_plane.binaries import PROGRAMS, NoControlPlane, cache_folder, find_go, resolve


def make_programs(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for program in PROGRAMS:
        (folder / program).write_text("#!/bin/sh\n")
        (folder / program).chmod(0o755)
    return folder


def make_program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture(autouse=True)
def empty_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No assets, an empty cache, no Go, no network."""
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(binaries, "find_go", lambda: None)
    monkeypatch.setattr(binaries, "_fetch", reject)


def reject(url: str) -> bytes:
    raise OSError(f"no network for {url}")


def test_assets_come_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assets = make_programs(tmp_path / "assets")
    make_programs(cache_folder())
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(assets))
    assert resolve(print) == assets


def test_rejects_incomplete_assets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    with pytest.raises(NoControlPlane, match=r"KUBEBUILDER_ASSETS=.* lacks .*unset it"):
        resolve(print)


def test_cache_comes_before_a_build() -> None:
    cache = make_programs(cache_folder())
    assert resolve(print) == cache


def test_the_default_cache_is_in_the_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert str(cache_folder()).startswith("/home/somebody/.cache/railhead/control-plane-")


def test_build_comes_before_the_download(monkeypatch: pytest.MonkeyPatch) -> None:
    def fake_build(go: list[str], target: Path, *, kubernetes: str, echo: Callable[[str], None]) -> None:
        assert go == ["/some/go"]
        make_programs(target)

    monkeypatch.setattr(binaries, "find_go", lambda: ["/some/go"])
    monkeypatch.setattr(binaries, "build", fake_build)
    assert binaries.has_programs(resolve(print))


def test_two_processes_do_not_build_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The second one waits and uses the programs of the first."""
    cache_folder().parent.mkdir(parents=True)
    printed: list[str] = []
    with Path(f"{cache_folder()}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)

        def echo(text: str) -> None:
            printed.append(text)
            make_programs(cache_folder())
            fcntl.flock(lock, fcntl.LOCK_UN)

        assert resolve(echo) == cache_folder()
    assert printed == ["waiting for another process that is making the control plane's programs"]


def test_the_error_lists_every_attempt() -> None:
    with pytest.raises(NoControlPlane, match=r"no Go 1\.26 or newer \(install Go.*release binaries"):
        resolve(print)


def test_a_failed_build_names_its_log_and_falls_back_to_the_download(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    go = make_program(tmp_path / "go", "#!/bin/sh\necho no such module\nexit 3\n")
    monkeypatch.setattr(binaries, "find_go", lambda: [str(go)])
    with pytest.raises(NoControlPlane, match=r"exit code 3\); see .*\.log; the release binaries could not be"):
        resolve(print)
    assert "no such module" in Path(f"{cache_folder()}.log").read_text()
    assert not cache_folder().exists()


@pytest.mark.parametrize(
    ("version", "is_good"),
    [("go1.26.0", True), ("go1.26rc1", True), ("go1.31.2", True), ("go2.0", True), ("go1.25.9", False), ("", False)],
)
def test_go_must_be_new_enough(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str, is_good: bool) -> None:
    go = make_program(tmp_path / "bin" / "go", f"#!/bin/sh\necho {version}\n")
    monkeypatch.setenv("PATH", f"{go.parent}{os.pathsep}/usr/bin{os.pathsep}/bin")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "elsewhere" / "python"))
    assert find_go() == ([str(go)] if is_good else None)


def test_finds_the_wheels_go_next_to_the_interpreter(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    go = make_program(tmp_path / "venv" / "bin" / "go", "#!/bin/sh\necho go1.26.4\n")
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(sys, "executable", str(go.with_name("python")))
    assert find_go() == [str(go)]


def test_build_creates_all_programs_and_nothing_else(tmp_path: Path) -> None:
    """With a fake Go that records its arguments."""
    text = '#!/bin/sh\nset -e\ntest -f go.mod\ntest -f go.sum\ntest -f main.go\necho "$@" >>"$LOG"\n'
    text += 'while [ "$1" != -o ]; do shift; done\necho "#!/bin/sh" >"$2"\nchmod +x "$2"\n'
    go = make_program(tmp_path / "go", text.replace("$LOG", str(tmp_path / "arguments")))
    target = tmp_path / "cache" / "programs"
    binaries.build([str(go)], target, kubernetes="1.36.3", echo=lambda text: None)
    assert binaries.has_programs(target)
    assert sorted(p.name for p in target.parent.iterdir()) == ["programs", "programs.log"]
    arguments = (tmp_path / "arguments").read_text()
    assert "-trimpath" in arguments
    assert "version.gitVersion=v1.36.3" in arguments
    assert "-mod=readonly" in arguments


def test_interrupted_build_leaves_no_process_and_no_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    go = make_program(tmp_path / "go", f"#!/bin/sh\nsleep 600 &\necho $! $$ >{pids}\nwait\n")
    monkeypatch.setattr(binaries, "SAY_EVERY_SECONDS", 0.05)

    def interrupt(text: str) -> None:
        if pids.exists() and pids.read_text().strip():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        binaries.build([str(go)], tmp_path / "cache" / "programs", kubernetes="1.36.3", echo=interrupt)
    assert [p.name for p in (tmp_path / "cache").iterdir()] == ["programs.log"]
    for pid in map(int, pids.read_text().split()):
        with pytest.raises(ProcessLookupError):
            wait_gone(pid)


def wait_gone(pid: int) -> None:
    """Raise ProcessLookupError at once, or once the killed orphan has been reaped."""
    import select

    pidfd = os.pidfd_open(pid)
    try:
        select.select([pidfd], [], [], 10)
    finally:
        os.close(pidfd)
    state = Path(f"/proc/{pid}/stat")
    if not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z":
        raise ProcessLookupError
    os.kill(pid, signal.SIGKILL)


def test_build_reports_progress(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    subprocess.run(["mkfifo", str(gate)], check=True)
    go = make_program(
        tmp_path / "go", f'#!/bin/sh\nread line <{gate}\nwhile [ "$1" != -o ]; do shift; done\ntouch "$2"\n'
    )
    monkeypatch.setattr(binaries, "SAY_EVERY_SECONDS", 0.05)
    printed: list[str] = []

    def echo(text: str) -> None:
        printed.append(text)
        if "still building" in text:
            with contextlib.suppress(OSError):  # not reading yet, or no longer
                open_gate()

    def open_gate() -> None:
        writer = os.open(gate, os.O_WRONLY | os.O_NONBLOCK)
        os.write(writer, b"go on\n")
        os.close(writer)

    binaries.build([str(go)], tmp_path / "cache" / "programs", kubernetes="1.36.3", echo=echo)
    assert any("still building etcd" in text for text in printed)
    assert any("kube built in" in text for text in printed)


def fake_site(tamper: str = "") -> Callable[[str], bytes]:
    """The release sites, with a wrong file where the URL ends with `tamper`."""
    archive = io.BytesIO()
    name = "etcd-v3.6.16-linux-amd64"
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        info = tarfile.TarInfo(f"{name}/etcd")
        info.size = 4
        tar.addfile(info, io.BytesIO(b"etcd"))

    def fetch(url: str) -> bytes:
        program = url.rpartition("/")[2]
        if program == "SHA256SUMS":
            return f"{hashlib.sha256(archive.getvalue()).hexdigest()}  {name}.tar.gz\n".encode()
        if program.endswith(".sha256"):
            return hashlib.sha256(program.removesuffix(".sha256").encode()).hexdigest().encode()
        data = archive.getvalue() if program.endswith(".tar.gz") else program.encode()
        return b"something else" if tamper and program.startswith(tamper) else data

    return fetch


def test_downloads_release_binaries_without_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binaries, "_fetch", fake_site())
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    folder = resolve(print)
    assert binaries.has_programs(folder)
    assert (folder / "etcd").read_bytes() == b"etcd"
    assert (folder / "kubectl").read_bytes() == b"kubectl"


@pytest.mark.parametrize("tamper", ["kube-scheduler", "kubectl", "etcd"])
def test_does_not_keep_a_file_with_a_wrong_checksum(monkeypatch: pytest.MonkeyPatch, tamper: str) -> None:
    monkeypatch.setattr(binaries, "_fetch", fake_site(tamper))
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    with pytest.raises(NoControlPlane, match=f"checksum of .*{tamper}.* does not match"):
        resolve(print)
    assert not cache_folder().exists()


def test_rejects_a_machine_without_releases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    with pytest.raises(NoControlPlane, match="no release for riscv64"):
        resolve(print)
