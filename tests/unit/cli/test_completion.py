"""What the shell may make of the word at the cursor."""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from railhead.cli.completion import Words, ask_cluster, complete_for_kubectl, find_candidates
from railhead.cli.main import main
from railhead.cli.parser import LIST_FORMATS, build_parser
from railhead.client.cluster.connection import Target
from railhead.json_object import Object
from tests.unit.cli.api_server import serve

# Print the candidates for the words of $1; what surrounds them is that of an interactive shell.
SHELLS = {
    "bash": 'eval "$(railhead completion bash)"; COMP_WORDS=($1); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _railhead; '
    "printf '%s\\n' ${COMPREPLY[@]}",
    "zsh": 'compdef() { }; compadd() { print -l -- "${@[2,-1]}" }; eval "$(railhead completion zsh)"; '
    "words=(${=1}); CURRENT=$#words; _railhead",
    "fish": "railhead completion fish | source; complete --do-complete $argv[1]",
}
# bash itself divides a word at =, and replaces what comes after it.
NAMESPACE = {"bash": "--namespace = te", "zsh": "--namespace=te", "fish": "--namespace=te"}
NAMESPACE_FOUND = {"bash": "", "zsh": "--namespace=", "fish": "--namespace="}


@pytest.mark.parametrize(
    ("words", "candidates"),
    [
        (["lo"], ["logs", "local"]),
        (["local", ""], ["up", "down", "status", "run"]),
        (["local", "run", "--g"], ["--gpus"]),
        (["logs", "digits", "--fo"], ["--folder", "--follow"]),
        (["logs", "digits", "--rank", ""], []),
        (["logs", "digits", "--rank", "3", "--al"], ["--all"]),
        (["list", "-A", "-o", ""], list(LIST_FORMATS)),
        (["list", "-o", "w"], ["wide"]),
        (["list", "-n", "logs", "--w"], ["--watch"]),
        (["wait", "digits", "--for", "su"], ["succeeded", "suspended"]),
        (["completion", ""], ["bash", "zsh", "fish"]),
        (["exec", "digits", "--", "--"], []),
        (["nothing", "--he"], ["--help"]),
        (["list", "--output=w"], ["wide"]),
        (["list", "-o=w"], ["wide"]),
        (["list", "--output", "=", "w"], ["wide"]),
        (["list", "--output", "="], list(LIST_FORMATS)),
        (["list", "--none=w"], []),
    ],
)
def test_candidates_are_those_of_the_command_and_its_options(words: list[str], candidates: list[str]) -> None:
    assert find_candidates(build_parser(), words, ask_nothing) == candidates


def ask_nothing(_: argparse.Action, __: Words) -> Sequence[str]:
    return ()


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
        (["status", ""], JOBS),
        (["logs", "--rank", "1", "di"], ["digits", "digits-r2"]),
        (["status", "digits", ""], []),
        (["delete", "digits", "llm", ""], ["digits-r2"]),
        (["why", "-n", "team-b", ""], ["other"]),
        (["why", "-n", "team-c", ""], []),
        (["why", "--namespace=team-b", ""], ["other"]),
        (["why", "--namespace", "=", "team-b", ""], ["other"]),
        (["list", "--namespace=team-"], NAMESPACES),
        (["list", "-n="], NAMESPACES),
        (["list", "--namespace", "team-"], NAMESPACES),
        (["logs", "digits", "--rank", ""], RANKS),
        (["logs", "--rank", ""], []),
        (["exec", "gone", "--rank", ""], []),
        (["submit", ""], []),
        (["retry", "digits", "--name", ""], []),
    ],
)
async def test_names_and_ranks_come_from_the_cluster(words: list[str], candidates: list[str], tmp_path: Path) -> None:
    async with serve(answer, tmp_path) as config:
        asked = [words[0], "--kubeconfig", config, *words[1:]]
        found = await asyncio.to_thread(find_candidates, build_parser(), asked, ask_cluster)
    assert found == candidates


def test_a_cluster_that_does_not_answer_has_no_names(tmp_path: Path) -> None:
    words = ["status", "--kubeconfig", str(tmp_path / "none"), ""]
    assert find_candidates(build_parser(), words, ask_cluster) == []


def test_a_cluster_that_takes_too_long_has_no_names(monkeypatch: pytest.MonkeyPatch) -> None:
    @asynccontextmanager
    async def hang(_: Target) -> AsyncIterator[None]:
        await asyncio.Event().wait()
        yield

    monkeypatch.setattr("railhead.cli.completion.SECONDS", 0.01)
    monkeypatch.setattr("railhead.client.cluster.connection.open_cluster", hang)
    assert find_candidates(build_parser(), ["status", ""], ask_cluster) == []


def test_without_a_word_all_commands_are_candidates(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["__complete"]) == main(["__complete", ""]) == 0
    found = capsys.readouterr().out.splitlines()
    assert found[: len(found) // 2] == found[len(found) // 2 :]
    assert {"list", "submit", "stacks", "local"} <= set(found)


@pytest.mark.parametrize("shell", SHELLS)
async def test_a_shell_asks_the_program(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    program = tmp_path / "railhead"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m railhead.cli "$@"\n')
    program.chmod(0o755)
    plain = {"bash": "--norc", "zsh": "-f", "fish": "--no-config"}[shell]
    async with serve(answer, tmp_path) as config:
        environment = {**os.environ, "PATH": f"{tmp_path}:/usr/bin:/bin", "PYTHONPATH": os.pathsep.join(sys.path)}
        for words, candidates in (
            ("railhead checkpoints digits --d", ["--download"]),
            ("railhead status d", ["digits", "digits-r2"]),
            (f"railhead list {NAMESPACE[shell]}", [NAMESPACE_FOUND[shell] + each for each in NAMESPACES]),
        ):
            process = await asyncio.create_subprocess_exec(
                *(shell, plain, "-c", SHELLS[shell], *(() if shell == "fish" else (shell,)), words),
                env={**environment, "KUBECONFIG": config, "HOME": str(tmp_path)},
                stdout=asyncio.subprocess.PIPE,
            )
            out, _ = await process.communicate()
            assert out.decode().split() == candidates


def test_kubectl_gets_a_directive_behind_the_candidates(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["kubectl_complete-railhead", "timel"])
    complete_for_kubectl()
    assert capsys.readouterr().out == "timeline\n:0\n"
    monkeypatch.setattr(sys, "argv", ["kubectl_complete-railhead", "list", "--output=w"])
    complete_for_kubectl()
    assert capsys.readouterr().out == "wide\n:0\n", "kubectl itself adds the option"
