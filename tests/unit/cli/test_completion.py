"""What the shell may make of the word at the cursor."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from railhead.cli.completion import complete_for_kubectl, find_candidates
from railhead.cli.jobs import FORMATS
from railhead.cli.main import build_parser, main


@pytest.mark.parametrize(
    ("words", "candidates"),
    [
        (["lo"], ["logs", "local"]),
        (["local", ""], ["up", "down", "status", "run"]),
        (["local", "run", "--g"], ["--gpus"]),
        (["logs", "digits", "--fo"], ["--folder", "--follow"]),
        (["logs", "digits", "--rank", ""], []),
        (["logs", "digits", "--rank", "3", "--al"], ["--all"]),
        (["list", "-A", "-o", ""], list(FORMATS)),
        (["list", "-o", "w"], ["wide"]),
        (["list", "-n", "logs", "--w"], ["--watch"]),
        (["wait", "digits", "--for", "su"], ["succeeded", "suspended"]),
        (["completion", ""], ["bash", "zsh", "fish"]),
        (["exec", "digits", "--", "--"], []),
        (["nothing", "--he"], ["--help"]),
    ],
)
def test_candidates_are_those_of_the_command_and_its_options(words: list[str], candidates: list[str]) -> None:
    assert find_candidates(build_parser(), words) == candidates


def test_without_a_word_all_commands_are_candidates(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["__complete"]) == main(["__complete", ""]) == 0
    found = capsys.readouterr().out.splitlines()
    assert found[: len(found) // 2] == found[len(found) // 2 :]
    assert {"list", "submit", "stacks", "local"} <= set(found)


def test_bash_asks_the_program(tmp_path: Path) -> None:
    program = tmp_path / "railhead"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m railhead.cli "$@"\n')
    program.chmod(0o755)
    script = (
        'eval "$(railhead completion bash)"; complete -p railhead; '
        "COMP_WORDS=(railhead checkpoints digits --d x); COMP_CWORD=3; _railhead; echo ${COMPREPLY[@]}"
    )
    environment = {**os.environ, "PATH": f"{tmp_path}:/usr/bin:/bin", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["complete -o default -F _railhead railhead", "--download"]


def test_kubectl_gets_a_directive_behind_the_candidates(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["kubectl_complete-railhead", "timel"])
    complete_for_kubectl()
    assert capsys.readouterr().out == "timeline\n:0\n"
