"""What the shell may make of the word at the cursor."""

from __future__ import annotations

import asyncio
import io
import os
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from argcomplete.finders import CompletionFinder

from railhead.cli.completion import FOR_KUBECTL, complete_for_kubectl, complete_line
from railhead.cli.parser import LIST_FORMATS
from railhead.client.cluster.connection import Target
from railhead.json_object import Object
from tests.unit.cli.api_server import serve

# Print the candidates for the line $1; what surrounds them is that of an interactive shell.
SHELLS = {
    "bash": 'eval "$(railhead completion bash)"; COMP_WORDBREAKS=" =:"; COMP_LINE=$1; COMP_POINT=${#1}; '
    'compopt() { return 1; }; _python_argcomplete railhead; printf "%s\\n" "${COMPREPLY[@]}"',
    "zsh": 'compdef() { }; _describe() { print -l -- "${(@P)2}" }; eval "$(railhead completion zsh)"; '
    "words=(railhead); BUFFER=$1; CURSOR=$#1; _python_argcomplete",
    "fish": "railhead completion fish | source; complete --do-complete $argv[1]",
}
PLAIN = {"bash": "--norc", "zsh": "-f", "fish": "--no-config"}


@pytest.fixture(autouse=True)
def keep_file_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps argcomplete from opening descriptor 9, which is pytest's here."""
    monkeypatch.setattr(CompletionFinder, "_init_debug_stream", lambda _: None)


def complete(line: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    for name, value in {**FOR_KUBECTL, "COMP_LINE": line, "COMP_POINT": str(len(line))}.items():
        monkeypatch.setenv(name, value)
    found = io.StringIO()
    with pytest.raises(SystemExit):
        complete_line(sys.exit, found)
    return found.getvalue().split("\n")


@pytest.mark.parametrize(
    ("words", "candidates"),
    [
        ("lo", ["logs", "local"]),
        ("local ", ["up", "down", "status", "run"]),
        ("local run --g", ["--gpus"]),
        ("logs digits --fo", ["--follow", "--folder"]),
        ("logs digits --rank 3 --at", ["--attempt"]),
        ("list -A -o ", list(LIST_FORMATS)),
        ("list -n logs --w", ["--watch"]),
        ("list --output=w", ["wide"]),
        ("wait digits --for su", ["succeeded", "suspended"]),
        ("completion ", ["bash", "zsh", "fish"]),
        ("exec digits -- --", [""]),
        ("exec digits --rank 3 -- nvidia-smi --he", [""]),
        ("list --none=w", [""]),
        ("no-command --he", ["--help"]),
    ],
)
def test_candidates_are_those_of_the_command_and_its_options(
    words: str, candidates: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert complete(f"railhead {words}", monkeypatch) == candidates


def test_other_values_are_completed_as_names_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "job.yaml").touch()
    (tmp_path / "jobs").mkdir()
    monkeypatch.chdir(tmp_path)
    for words in ("submit jo", "render jo", "list --kubeconfig jo", "local run -f jo"):
        assert sorted(complete(f"railhead {words}", monkeypatch)) == ["job.yaml", "jobs/"]


JOBS, NAMESPACES, RANKS = ["digits", "digits-r2", "llm"], ["team-a", "team-b"], ["0", "1", "2"]


async def answer(request: web.Request) -> web.Response:
    """Has three jobs in team-a, one in team-b, and one with three ranks."""
    job = {"metadata": {"name": "digits"}, "spec": {"scaling": {"numWorkers": 2, "maxWorkers": 3}}}
    jobs = "/apis/railhead.dev/v1alpha1/namespaces"
    lists = {f"{jobs}/team-a/trainjobs": JOBS, f"{jobs}/team-b/trainjobs": ["other"], "/api/v1/namespaces": NAMESPACES}
    if request.path == f"{jobs}/team-a/trainjobs/digits":
        return web.json_response(job)
    if request.path not in lists:
        return web.json_response({"kind": "Status", "code": 404, "reason": "NotFound"}, status=404)
    items: list[Object] = [{"metadata": {"name": name}} for name in lists[request.path]]
    return web.json_response({"metadata": {"resourceVersion": "1"}, "items": items})


@pytest.mark.parametrize(
    ("words", "candidates"),
    [
        ("status ", JOBS),
        ("logs --rank 1 di", ["digits", "digits-r2"]),
        ("status digits ", [""]),
        ("delete digits llm ", ["digits-r2"]),
        ("why -n team-b ", ["other"]),
        ("why -n team-c ", [""]),
        ("why --namespace=team-b ", ["other"]),
        ("list --namespace=team-", NAMESPACES),
        ("list --namespace team-", NAMESPACES),
        ("logs digits --rank ", RANKS),
        ("logs --rank ", [""]),
        ("exec gone --rank ", [""]),
    ],
)
async def test_names_and_ranks_come_from_the_cluster(
    words: str, candidates: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve(answer, tmp_path) as config:
        monkeypatch.setenv("KUBECONFIG", config)
        found = await asyncio.to_thread(complete, f"railhead {words}", monkeypatch)
    assert found == candidates


def test_a_cluster_that_does_not_answer_has_no_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert complete(f"railhead status --kubeconfig {tmp_path / 'none'} ", monkeypatch) == [""]


def test_a_cluster_that_takes_too_long_has_no_names(monkeypatch: pytest.MonkeyPatch) -> None:
    @asynccontextmanager
    async def hang(_: Target) -> AsyncIterator[None]:
        await asyncio.Event().wait()
        yield

    monkeypatch.setattr("railhead.cli.completion.SECONDS", 0.01)
    monkeypatch.setattr("railhead.client.cluster.connection.open_cluster", hang)
    assert complete("railhead status ", monkeypatch) == [""]


def test_without_a_word_all_commands_are_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {"list", "submit", "stacks", "local"} <= set(complete("railhead ", monkeypatch))


@pytest.mark.parametrize("shell", SHELLS)
async def test_a_shell_asks_the_program(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    program = tmp_path / "railhead"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m railhead.cli "$@"\n')
    program.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    before = "" if shell == "bash" else "--namespace="  # bash itself divides a word at =
    async with serve(answer, tmp_path) as config:
        environment = {**os.environ, "PATH": path, "PYTHONPATH": os.pathsep.join(sys.path), "KUBECONFIG": config}
        for line, candidates in (
            ("railhead checkpoints digits --d", ["--download"]),
            ("railhead status d", ["digits", "digits-r2"]),
            ("railhead list --namespace=te", [before + each for each in NAMESPACES]),
        ):
            process = await asyncio.create_subprocess_exec(
                *(shell, PLAIN[shell], "-c", SHELLS[shell], *(() if shell == "fish" else (shell,)), line),
                env={**environment, "HOME": str(tmp_path)},
                stdout=asyncio.subprocess.PIPE,
            )
            out, _ = await process.communicate()
            # zsh and fish show what an option means behind the candidate.
            assert [re.split("[:\t]", each)[0].strip() for each in out.decode().splitlines()] == candidates


def test_kubectl_gets_a_directive_behind_the_candidates(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in (*FOR_KUBECTL, "COMP_LINE", "COMP_POINT"):
        monkeypatch.setenv(name, "")  # so that the test's end removes what the program sets
    for words, out in (
        (["timel"], "timeline\n:0\n"),
        (["list", "--output=w"], "wide\n:0\n"),
        (["list", "--output", ""], "table\nwide\njson\nyaml\nname\n:0\n"),
        (["exec", "digits", "--", "--he"], ":0\n"),
    ):
        monkeypatch.setattr(sys, "argv", ["kubectl_complete-railhead", *words])
        complete_for_kubectl()
        assert capsys.readouterr().out == out


def test_a_command_that_is_no_completion_does_not_import_argcomplete() -> None:
    code = (
        "import sys, railhead.cli.main as m; print({'argcomplete', 'asyncio'} & set(sys.modules)); m.main(['--help'])"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.startswith("set()\n")
