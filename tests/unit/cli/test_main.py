"""The command line: exit codes, and messages instead of tracebacks."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from railhead import __version__
from railhead.cli import local
from railhead.cli.main import main
from railhead.local import LocalError
from railhead.resources.bundle import build_bundle, bundle_name

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


@pytest.mark.parametrize(
    ("arguments", "package", "extras"),
    [
        (["local", "up"], "psutil", "local,train"),
        (["operator", "--report-url", "https://r"], "kopf", "operator"),
        (["list"], "kubernetes", "client"),
        (["explain"], "yaml", "client"),
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

    monkeypatch.setattr(local, "run_job", fail)
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
    assert "is no name of a TrainJob" in capsys.readouterr().err


def test_characters_that_the_output_cannot_encode_are_replaced() -> None:
    code = "import sys; from railhead.cli.main import main; from railhead.cli.output import Console\n"
    code += "main(['version']); Console().line('\u2588')"
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONIOENCODING": "ascii"}, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "?"), done.stderr
