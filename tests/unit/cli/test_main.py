"""The command line: exit codes, and messages instead of tracebacks."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from aiohttp import web

from railhead._version import __version__
from railhead.cli import local
from railhead.cli.main import is_broken_pipe, main
from railhead.local import LocalError
from railhead.resources.bundle import build_bundle, bundle_name
from tests.unit.cli.api_server import serve
from tests.unit.client.jobs import make_job
from tests.unit.client.run_folder import write_run

# Prints the top-level modules that the help imports, other than Python's own and those of its start.
IMPORTED = """
import sys
before = set(sys.modules)
from railhead.cli.main import main
try:
    main(sys.argv[1:])
except SystemExit:
    pass
new = {name.partition(".")[0] for name in set(sys.modules) - before}
print("imported:", *sorted(new - sys.stdlib_module_names))
"""

# Begins a program that has nothing of what Python lacks on Windows and the commands might use.
WITHOUT_POSIX = """
import os, signal, sys
for name in ("fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty"):
    sys.modules[name] = None
for module, names in (
    (os, "O_CLOEXEC O_DIRECTORY O_NOFOLLOW O_NONBLOCK fchmod fork fwalk geteuid getuid killpg mkfifo setsid uname"),
    (signal, "SIGALRM SIGHUP SIGKILL SIGPIPE SIGUSR1 alarm setitimer"),
):
    for name in names.split():
        delattr(module, name)
def without_folder(call):
    def refuse(*arguments, dir_fd=None, src_dir_fd=None, dst_dir_fd=None, **options):
        assert dir_fd is src_dir_fd is dst_dir_fd is None, "dir_fd unavailable on this platform"
        return call(*arguments, **options)
    return refuse
for call in os.supports_dir_fd:
    setattr(os, call.__name__, without_folder(call))
os.supports_dir_fd = os.supports_fd = set()
"""


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["--version"])
    assert exit_.value.code == 0
    assert "railhead 0." in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments", [[], ["local"], ["local", "run"], ["local", "up", "--gpus", "-1"], ["local", "up", "--gpus", "many"]]
)
def test_rejects_bad_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == 2
    assert "usage" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command", [["operator"], ["version"], ["local", "up"], ["local", "down"], ["local", "status"], ["local", "run"]]
)
def test_every_command_has_help(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main([*command, "--help"])
    assert exit_.value.code == 0
    assert "usage: railhead" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["local", "run", "--help"], ["operator", "--help"], ["list", "--help"], ["wait", "--help"]],
)
def test_help_imports_only_railhead(arguments: list[str]) -> None:
    """kopf, kubernetes or pydantic would make them take a second, and an installation may lack them."""
    command = [sys.executable, "-c", IMPORTED, *arguments]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert output.splitlines()[-1] == "imported: railhead"


def test_no_command_for_a_cluster_imports_what_only_pods_or_the_operator_have() -> None:
    folder = Path(__file__).resolve().parents[3] / "operator" / "railhead" / "client"
    modules = ", ".join(f"railhead.client.{path.stem}" for path in folder.glob("*.py") if path.stem != "__init__")
    banned = "{'ray', 'torch', 'kopf', 'cryptography', 'prometheus_client'}"
    code = f"import sys, {modules}; print(*{banned} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"


def test_a_list_of_jobs_does_not_import_the_planner() -> None:
    """It would be a tenth of the time until the first line."""
    code = (
        "import sys, railhead.cli.jobs; print(*(name for name in sys.modules if name.startswith('railhead.planning')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"


@pytest.mark.parametrize(
    ("arguments", "package", "extras"),
    [
        (["local", "up"], "psutil", "local,train"),
        (["operator", "--report-url", "https://r"], "kopf", "operator"),
        (["list"], "kubernetes", "client"),
        (["render", "job.yaml"], "yaml", "client"),
    ],
)
def test_a_package_that_is_not_installed_is_named_with_its_extra(
    tmp_path: Path, arguments: list[str], package: str, extras: str
) -> None:
    """`railhead-train` without extras has neither."""
    code = (
        f"import sys; sys.modules[{package!r}] = None; from railhead.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    folder = ["--dir", str(tmp_path)] if arguments[0] == "local" else []
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments, *folder], capture_output=True, text=True, check=False
    )
    remedy = f"pip install 'railhead-train[{extras}]'"
    assert done.returncode == 1
    assert done.stderr == f"railhead: `railhead {arguments[0]}` needs the package {package}: {remedy}\n"


@pytest.mark.parametrize(
    ("error", "code"), [(KeyboardInterrupt(), 130), (LocalError("a sentence"), 1), (BrokenPipeError(), 1)]
)
def test_known_errors_become_exit_codes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: BaseException, code: int
) -> None:
    def fail(options: object) -> int:
        raise error

    monkeypatch.setattr(local, "do_run", fail)
    monkeypatch.setattr("os.dup2", lambda new, old: None)  # stdout is pytest's
    assert main(["local", "run", "-f", "x.yaml", "--dir", str(tmp_path)]) == code


def test_version_lists_compatible_versions(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version"]) == 0
    output = capsys.readouterr().out
    assert re.search(rf"^railhead +{re.escape(__version__)}$", output, re.MULTILINE)
    assert re.search(r"^Ray +2\.52 or newer .*scaling\.minWorkers 2\.55", output, re.MULTILINE)
    assert re.search(rf"^driver +ConfigMap {bundle_name(build_bundle())}$", output, re.MULTILINE)
    assert re.search(
        rf"^CRD +trainjobs\.railhead\.dev v1alpha1, of Railhead {re.escape(__version__)}", output, re.MULTILINE
    )


@pytest.mark.parametrize("name", ["", "a/status", "a?x=1", "../pods", "A"])
@pytest.mark.parametrize("command", ["status", "suspend", "delete"])
def test_a_text_that_is_no_name_of_a_job_is_bad_usage(
    command: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_:
        main([command, name])
    assert exit_.value.code == 2
    assert "is not a valid TrainJob name" in capsys.readouterr().err


def test_windows_calls_a_reader_that_is_gone_an_invalid_argument(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = OSError(errno.EINVAL, "Invalid argument")
    assert is_broken_pipe(BrokenPipeError()) and not is_broken_pipe(gone)
    monkeypatch.setattr(sys, "platform", "win32")
    assert is_broken_pipe(gone) and not is_broken_pipe(OSError(errno.ENOSPC, "No space left on device"))


@pytest.mark.parametrize("command", [["local", "status"], ["operator", "--report-url", "https://r"]])
def test_what_runs_on_linux_only_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert main(command) == 1
    assert f"`railhead {command[0]}` needs Linux" in capsys.readouterr().err


async def test_a_run_on_this_machine_is_read_without_what_only_posix_has(tmp_path: Path) -> None:
    write_run(tmp_path / "run")
    reader = tmp_path / "python"  # it reads the folder, in a process that gets only this as an option
    reader.write_text(f"#!{sys.executable}\n{WITHOUT_POSIX}\nexec(sys.argv[-1])\n")
    reader.chmod(0o755)
    code = f"{WITHOUT_POSIX}\nfrom railhead.cli.main import main\nsys.executable = {str(reader)!r}\n"
    folder = ["--folder", str(tmp_path / "run")]
    commands = [
        ["list"],
        ["checkpoints", "digits", "--verify", *folder],
        ["checkpoints", "digits", "--download", str(tmp_path / "copy"), "--checkpoint", "checkpoint_1", *folder],
        ["metrics", "digits", "--metric", "loss", *folder],
        ["logs", "digits", "--attempt", "1", "--rank", "1", *folder],
    ]

    async def answer(request: web.Request) -> web.Response:
        job = make_job(phase="Failed", attempt=2)
        is_one = request.path.endswith("/digits")
        items = [job] if request.path.endswith("/trainjobs") else []
        return web.json_response(job if is_one else {"metadata": {"resourceVersion": "1"}, "items": items})

    async with serve(answer, tmp_path) as config:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", f"{code}print([main(each) for each in {commands!r}])"),
            env={**os.environ, "KUBECONFIG": config},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        output, problems = (each.decode() for each in await process.communicate())
    assert output.splitlines()[-1:] == ["[0, 1, 0, 0, 0]"], problems  # a checkpoint is damaged
    for words in ("digits  Failed", "model.pt: it is damaged", "█▄▂▂▁▁▁▁", "one of 1"):
        assert words in output
    assert (tmp_path / "copy" / "model.pt").read_bytes() == b"weights"


def test_characters_that_the_output_cannot_encode_are_replaced() -> None:
    code = "import sys; from railhead.cli.main import main; from railhead.cli.output import Console\n"
    code += "main(['version']); Console().line('\u2588')"
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONIOENCODING": "ascii"}, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "?"), done.stderr
