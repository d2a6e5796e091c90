"""Starts one of Ray's worker processes, for each rank and actor, with the variables of its runtime environment.

Ray's own `setup_worker.py` imports most of Ray to do so, and starts a shell: 0.3 s of processor time before the worker
imports Ray itself. It still runs for what needs more than variables, such as a container or a virtual environment.
Imports nothing but the standard library. Source: `exec_worker` in `ray/_private/runtime_env/context.py`.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Mapping, NamedTuple, NoReturn, Optional, Sequence

CONTEXT = "--serialized-runtime-env-context"
LANGUAGE = "--language"
# A shell runs the file that it names first, which may set variables: some images' do.
SHELL_START = "BASH_ENV"


class Start(NamedTuple):
    """A worker's command without the interpreter, and what it adds to the environment."""

    arguments: list[str]
    variables: dict[str, str]


def start_worker(original: str) -> NoReturn:
    """Replaces this process, which has the arguments of `original`: the path of Ray's own `setup_worker.py`."""
    arguments = sys.argv[1:]
    start = plan_start(arguments, environment=os.environ, python=sys.executable)
    if start is None:
        os.execv(sys.executable, [sys.executable, original, *arguments])
    os.environ.update(start.variables)
    os.execv(sys.executable, [sys.executable, *start.arguments])


def plan_start(arguments: Sequence[str], *, environment: Mapping[str, str], python: str) -> Optional[Start]:
    """Returns None where Ray's own program must run. `python`: the interpreter that the raylet uses."""
    options = {CONTEXT: "{}", LANGUAGE: ""}
    rest = []
    for argument in arguments:
        name, _, value = argument.partition("=")
        if name in options:
            options[name] = value
        else:
            rest.append(argument)
    context = json.loads(options[CONTEXT] or "{}")
    variables = context.pop("env_vars", None) or {}
    is_plain = context.pop("py_executable", None) in (None, python) and not any(context.values())
    needs_shell = SHELL_START in environment or SHELL_START in variables
    has_references = any("$" in value for value in variables.values())  # Ray replaces ${NAME}
    if options[LANGUAGE] != "PYTHON" or not is_plain or needs_shell or has_references:
        return None
    return Start(rest, variables)
