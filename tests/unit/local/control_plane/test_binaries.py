"""Where the control plane's programs come from, in order of preference."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import io
import os
import signal
import socket
import subprocess
import sys
import tarfile
import urllib.request
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from railhead.local import LocalError
from railhead.local.control_plane import binaries
from railhead.local.control_plane.binaries import (
    ETCD_VERSION,
    PROGRAMS,
    Publishers,
    Release,
    cache_folder,
    fetch_checksum,
    find_go,
    resolve,
)


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
    monkeypatch.setattr("urllib.request.urlopen", forward(urllib.request.urlopen))


def forward(urlopen: Callable[..., object]) -> Callable[..., object]:
    """Lets only the loopback interface through."""

    def open_loopback(url: str, *, timeout: float) -> object:
        if not url.startswith("http://127.0.0.1:"):
            raise OSError(f"no network for {url}")
        return urlopen(url, timeout=timeout)

    return open_loopback


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """A machine with Go; the folders that it has built."""
    folders: list[Path] = []

    def build(go: list[str], target: Path, *, kubernetes: str, echo: Callable[[str], None]) -> None:
        folders.append(make_programs(target))

    monkeypatch.setattr(binaries, "find_go", lambda: ["/some/go"])
    monkeypatch.setattr(binaries, "build", build)
    return folders


def test_assets_come_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assets = make_programs(tmp_path / "assets")
    make_programs(cache_folder())
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(assets))
    assert resolve(print) == assets


def test_rejects_incomplete_assets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    with pytest.raises(LocalError, match=r"KUBEBUILDER_ASSETS=.* lacks .*unset it"):
        resolve(print)


def test_cache_comes_before_a_build() -> None:
    cache = make_programs(cache_folder())
    assert resolve(print) == cache


def test_the_default_cache_is_in_the_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert str(cache_folder()).startswith("/home/somebody/.cache/railhead/control-plane-")


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
    with pytest.raises(
        LocalError,
        match=r"http.* cannot be downloaded: no network .*; no Go 1\.26 or newer \(install Go",
    ):
        resolve(print)


def test_a_failed_build_names_its_log(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    go = make_program(tmp_path / "go", "#!/bin/sh\necho no such module\nexit 3\n")
    monkeypatch.setattr(binaries, "find_go", lambda: [str(go)])
    with pytest.raises(LocalError, match=r"http.* cannot be downloaded.*exit code 3\); see .*\.log"):
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


def pack(name: str, content: bytes) -> bytes:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        info = tarfile.TarInfo(name)
        info.size = len(content)
        tar.addfile(info, io.BytesIO(content))
    return archive.getvalue()


class Site:
    """Both publishers on the loopback interface. A URL without a file is a 404; a `halved` file breaks off."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.publishers = Publishers(kubernetes=f"{address}/release", etcd=f"{address}/etcd")
        self.releases = {release.program: release for release in self.publishers.list_releases("amd64")}
        self.files: dict[str, bytes] = {}
        self.halved: set[str] = set()
        for release in self.releases.values():
            self.publish(release, f"#!/bin/sh\n# {release.program}\n".encode())

    def publish(self, release: Release, program: bytes) -> None:
        """Puts the program there, with its checksum."""
        name = ""
        if release.program == "etcd":
            program = pack(f"etcd-v{ETCD_VERSION}-linux-amd64/etcd", program)
            name = release.url.rpartition("/")[2]
        self.files[release.url] = program
        self.files[release.checksums] = f"{hashlib.sha256(program).hexdigest()}  {name}".encode()

    def pin(self) -> dict[str, str]:
        return {release.url: fetch_checksum(release) for release in self.releases.values()}


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            url = published.address + self.path
            if url not in published.files:
                self.send_error(404)
                return
            data = published.files[url]
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data[: len(data) // 2] if url in published.halved else data)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        published = Site(f"http://127.0.0.1:{server.server_address[1]}")
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield published
        server.shutdown()
        thread.join()


def test_release_binaries_with_a_pinned_checksum_come_before_a_build(built: list[Path], site: Site) -> None:
    folder = resolve(print, publishers=site.publishers, checksums=site.pin())
    assert binaries.has_programs(folder)
    assert (folder / "etcd").read_text() == "#!/bin/sh\n# etcd\n"
    assert (folder / "kubectl").read_text() == "#!/bin/sh\n# kubectl\n"
    assert built == []


@pytest.mark.parametrize("program", ["kube-scheduler", "kubectl", "etcd"])
def test_go_builds_what_does_not_match_its_pinned_checksum(built: list[Path], site: Site, program: str) -> None:
    """The publisher's checksum of today matches: whoever replaced the file has replaced that as well."""
    release, pinned, said = site.releases[program], site.pin(), list[str]()
    site.publish(release, b"another program")
    folder = resolve(said.append, publishers=site.publishers, checksums=pinned)
    assert built == [folder]
    assert f"the checksum of {release.url} does not match" in said


def lose(site: Site, url: str) -> None:
    del site.files[url]


def halve(site: Site, url: str) -> None:
    site.halved.add(url)


@pytest.mark.parametrize(
    ("damage", "message"), [(lose, "cannot be downloaded: HTTP Error 404"), (halve, "cannot be downloaded: Incomplete")]
)
def test_go_builds_what_cannot_be_downloaded(
    built: list[Path], site: Site, damage: Callable[[Site, str], None], message: str
) -> None:
    pinned, said = site.pin(), list[str]()
    damage(site, site.releases["kube-apiserver"].url)
    assert built == [resolve(said.append, publishers=site.publishers, checksums=pinned)]
    assert any(message in line for line in said)


def test_go_builds_when_no_publisher_answers(built: list[Path], site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that accepts the connection and says nothing, as behind a firewall that swallows packets."""
    monkeypatch.setattr(binaries, "PATIENCE_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        publishers = Publishers(kubernetes=address, etcd=address)
        pinned = {release.url: "" for release in publishers.list_releases("amd64")}
        said: list[str] = []
        assert built == [resolve(said.append, publishers=publishers, checksums=pinned)]
    assert any("cannot be downloaded: timed out" in line for line in said)


def test_without_a_pinned_checksum_the_publishers_own_counts_also_where_go_could_build(
    built: list[Path], site: Site
) -> None:
    folder = resolve(print, publishers=site.publishers, checksums={})
    assert binaries.has_programs(folder)
    assert built == []


def test_a_machine_without_go_downloads(site: Site) -> None:
    assert binaries.has_programs(resolve(print, publishers=site.publishers, checksums={}))


@pytest.mark.parametrize("program", ["kubectl", "etcd"])
def test_does_not_keep_a_file_with_a_wrong_checksum(site: Site, program: str) -> None:
    site.files[site.releases[program].url] = b"something else"
    with pytest.raises(LocalError, match=f"checksum of .*{program}.* does not match"):
        resolve(print, publishers=site.publishers, checksums={})
    assert not cache_folder().exists()


def test_rejects_a_machine_without_releases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    with pytest.raises(LocalError, match="no release binaries for riscv64"):
        resolve(print)
