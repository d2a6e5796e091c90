"""Ray's workers start as by Ray's own program, which runs where a worker needs more than variables."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from ray._private.runtime_env.context import RuntimeEnvContext
from ray.core.generated.common_pb2 import Language

from railhead.driver.ray.daemons import SETUP
from railhead.driver.ray.start_worker import CONTEXT, LANGUAGE, SHELL_START, Start, plan_start

WORKER = ["/ray/default_worker.py", "--node-ip-address=10.0.0.1", "--webui=", "--runtime-env-hash=7", "a b"]
PYTHON = sys.executable


def plan(context: str, *, language: str = "PYTHON", **environment: str) -> Start | None:
    arguments = [*WORKER[:3], f"{LANGUAGE}={language}", *WORKER[3:], f"{CONTEXT}={context}"]
    return plan_start(arguments, environment=environment, python=PYTHON)


def test_contract_a_worker_with_variables_starts_as_ray_starts_it(monkeypatch: pytest.MonkeyPatch) -> None:
    variables = {"RAILHEAD_TEST_A": "1", "RAILHEAD_TEST_B": "two words"}
    for name in variables:
        monkeypatch.delenv(name, raising=False)
    ran: list[list[str]] = []
    monkeypatch.setattr(os, "execvp", lambda _, args: ran.append(args))
    context = RuntimeEnvContext(env_vars=variables)
    context.exec_worker(list(WORKER), Language.PYTHON)
    [[_, _, command]] = ran
    assert shlex.split(command) == ["exec", PYTHON, *WORKER]
    assert {name: os.environ[name] for name in variables} == variables
    assert plan(context.serialize()) == Start(WORKER, variables)


@pytest.mark.parametrize("context", ["", "{}", json.dumps({"env_vars": {}, "command_prefix": []})])
def test_a_worker_without_a_runtime_environment_starts(context: str) -> None:
    assert plan(context) == Start(WORKER, {})


@pytest.mark.parametrize(
    "context",
    [
        RuntimeEnvContext(command_prefix=["cd", "/code", "&&"]),
        RuntimeEnvContext(py_executable="/venv/bin/python"),
        RuntimeEnvContext(override_worker_entrypoint="/image/default_worker.py"),
        RuntimeEnvContext(java_jars=["a.jar"]),
        RuntimeEnvContext(env_vars={"PATH": "/bin:${PATH}"}),
        RuntimeEnvContext(env_vars={SHELL_START: "/etc/bash.bashrc"}),
    ],
)
def test_rays_own_program_runs_for_more_than_variables(context: RuntimeEnvContext) -> None:
    assert plan(context.serialize()) is None


def test_rays_own_program_runs_for_what_is_unknown_and_where_a_shell_sets_variables() -> None:
    assert plan(json.dumps({"a_newer_ray": "has more"})) is None
    assert plan("{}", language="CPP") is None
    assert plan("{}", **{SHELL_START: "/etc/bash.bashrc"}) is None


@pytest.mark.parametrize("prefix", [[], ["nice"]])
def test_the_process_becomes_the_worker_or_rays_own_program(tmp_path: Path, prefix: list[str]) -> None:
    worker, original, setup = (tmp_path / name for name in ("worker.py", "original.py", "setup.py"))
    shown = "import os, sys; print(__file__, sys.argv[1:], os.environ.get('RAILHEAD_TEST_A'))"
    for each in (worker, original):
        each.write_text(shown)
    setup.write_text(SETUP.format(original=str(original)))
    context = json.dumps({"env_vars": {"RAILHEAD_TEST_A": "1"}, "command_prefix": prefix})
    given = [str(worker), "--id=7", f"{LANGUAGE}=PYTHON", f"{CONTEXT}={context}"]
    environment = {name: value for name, value in os.environ.items() if name != SHELL_START}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    done = subprocess.run([PYTHON, str(setup), *given], env=environment, capture_output=True, text=True, check=True)
    expected = f"{original} {given} None" if prefix else f"{worker} {given[1:2]} 1"
    assert done.stdout.strip() == expected
