"""A script as the driver, without a cluster: its start, the verdict on its end, and our hooks in it."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import textwrap
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from ray.train.v2.api import data_parallel_trainer
from ray.train.v2.api.callback import RayTrainCallback
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

from railhead.contract import environment as e
from railhead.contract.failure import Failure, FailureClass
from railhead.contract.job_input import ScalingInput
from railhead.contract.outcome import Outcome
from railhead.driver.container.pod_input import Pod
from railhead.driver.container.pod_processes import kill_child
from railhead.driver.container.run_context import RunContext
from railhead.driver.head.rank_stream import Ranks
from railhead.driver.head.script_process import (
    SCRIPT,
    Scripts,
    build_command,
    decide_ending,
    find_missing_file,
    run_script,
)
from railhead.driver.mailbox.mailbox import Mailbox
from railhead.driver.mailbox.values import Fit
from railhead.driver.messages.attempt_errors import AttemptFailed, JobRefused
from railhead.driver.pod.ending import Ending, build_outcome, choose_exit_code
from railhead.driver.script import watched_fit as script_fit
from railhead.driver.train_controller import CALLBACK
from tests.ray.pods import make_job
from tests.unit.driver.mailboxes import tell

REPORTED = Failure(FailureClass.APPLICATION, "TrainFunctionRaised", "rank 1: ValueError: no")
OUT_OF_MEMORY = Failure(FailureClass.OUT_OF_MEMORY, "OutOfMemory", "rank 0")


@pytest.mark.parametrize(
    ("code", "fit", "failure", "last_lines", "expected"),
    [
        (0, Fit(1, True), None, [], ("Succeeded", "TrainingSucceeded", "")),
        (0, None, None, ["a line"], ("Configuration", "NoFit", "without calling fit()")),
        (
            0,
            None,
            None,
            [],
            ("Configuration", "NoFit", "ray.tune.Tuner is not supported: create one TrainJob for each"),
        ),
        (0, Fit(2, True, REPORTED), None, [], ("Application", "TrainFunctionRaised", "rank 1")),
        (1, Fit(2, True, REPORTED), OUT_OF_MEMORY, ["x"], ("Application", "TrainFunctionRaised", "rank 1")),
        (0, Fit(1), None, [], ("Application", "ScriptEnded", "while its fit() was still running")),
        (1, Fit(1), OUT_OF_MEMORY, [], ("OutOfMemory", "OutOfMemory", "rank 0")),
        (
            1,
            Fit(1, True),
            None,
            ["KeyError: 'a'"],
            ("Application", "ScriptFailed", "code 1 after fit():\nKeyError"),
        ),
        (2, None, None, ["a", "b"], ("Application", "ScriptFailed", "exited with code 2 before any fit():\na\nb")),
        (-9, Fit(1), None, [], ("Application", "ScriptFailed", "was killed by SIGKILL, as happens when ")),
        (-11, Fit(1), None, [], ("Application", "ScriptFailed", "was killed by SIGSEGV in fit()")),
        (1, None, None, ["ModuleNotFoundError: No module named 'x'"], ("Configuration", "EntrypointNotUsable", "'x'")),
        (1, None, None, ["SyntaxError: invalid"], ("Configuration", "EntrypointNotUsable", "SyntaxError")),
        (1, Fit(1, True), None, ["ImportError: x"], ("Application", "ScriptFailed", "ImportError")),
    ],
)
def test_classifies_the_end_of_a_script(
    code: int, fit: Fit | None, failure: Failure | None, last_lines: list[str], expected: tuple[str, str, str]
) -> None:
    ending = decide_ending(code, fit=fit, failure=failure, last_lines=last_lines)
    outcome = build_outcome(ending)
    assert (outcome.outcome, outcome.reason) == expected[:2]
    assert expected[2] in outcome.message
    assert choose_exit_code(ending) == (0 if outcome.has_succeeded else FailureClass(expected[0]).exit_code)


@pytest.mark.parametrize(
    ("code", "fit", "failure", "expected"),
    [
        (3, Fit(1), None, 3),
        (-9, Fit(1), None, 137),
        (0, Fit(1), None, None),
        (0, Fit(1, True), None, None),
        (1, Fit(1, True, REPORTED), None, 1),
        (1, Fit(1, True, replace(REPORTED, process_exit_code=42)), None, 42),  # the rank's exit code is the cause
        (1, Fit(1, True, Failure(FailureClass.INFRASTRUCTURE, "NodeLost", "")), None, None),
        (1, Fit(1, True, Failure(FailureClass.HARDWARE, "GPUFailed", "")), None, None),
    ],
)
def test_the_exit_code_that_the_failure_policy_sees(
    code: int, fit: Fit, failure: Failure | None, expected: int | None
) -> None:
    ending = decide_ending(code, fit=fit, failure=failure, last_lines=[])
    outcome = build_outcome(ending)
    assert outcome.process_exit_code == expected
    assert Outcome.from_json(outcome.to_json()) == outcome


@pytest.mark.parametrize(
    ("command", "missing"),
    [
        (["python", "train.py"], ""),
        (["python3.11", "-u", "-W", "error", "train.py", "absent.py"], ""),
        (["python", "absent.py"], "absent.py"),
        (["/usr/bin/python3", "-X", "dev", "sub/absent.py"], "sub/absent.py"),
        (["python", "-m", "absent"], ""),
        (["python", "-c", "print()"], ""),
        (["torchrun", "absent.py"], ""),
        (["python"], ""),
    ],
)
def test_finds_a_missing_script_before_ray_starts(tmp_path: Path, command: list[str], missing: str) -> None:
    (tmp_path / "train.py").write_text("")
    assert find_missing_file(command, str(tmp_path)) == missing


def test_contract_ray_finds_our_callback_by_name() -> None:
    module, _, name = CALLBACK.rpartition(".")
    assert issubclass(getattr(importlib.import_module(module), name), RayTrainCallback)


def test_python_means_the_interpreter_that_has_ray() -> None:
    assert build_command(["python", "a"]) == [sys.executable, "a"]
    assert build_command(["/opt/python", "a"]) == ["/opt/python", "a"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(e.SOURCE, str(tmp_path))
    monkeypatch.setenv("RAILHEAD_TEST", "1")
    return tmp_path


def run(folder: Path, code: str, *, scripts: Scripts | None = None, entrypoint: list[str] | None = None) -> Ending:
    (folder / "train.py").write_text(textwrap.dedent(code))
    command, scaling = entrypoint or ["python", "train.py", "two words"], ScalingInput(3)
    job = make_job(train_func="", entrypoint=command, run_name="the-run", scaling=scaling, storage_path="/runs")
    own = {e.INPUT: "", e.BUNDLE: "", e.POD_IP: "10.0.0.2", e.HEAD_HOST: "", e.HEAD_PORT: "6379", e.TEMP: ""}
    pod = Pod.from_environment(own)
    return run_script(job, pod, Mailbox(folder), Ranks("None"), [] if scripts is None else scripts)


def test_a_script_has_its_arguments_folder_and_environment(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code = """
        import os, sys
        print(sys.argv[1], os.path.basename(os.getcwd()) == os.path.basename(sys.path[0]), flush=True)
        names = ["RAILHEAD_RUN_NAME", "RAILHEAD_STORAGE_PATH", "RAILHEAD_NUM_WORKERS", "RAY_ADDRESS"]
        print([os.environ[name] for name in names], file=sys.stderr)
        print(os.environ["RAY_TRAIN_CALLBACKS"], os.environ["RAILHEAD_TEST"])
        sys.stdout.write("no end of line")
        sys.exit(5)
    """
    ending = run(folder, code)
    out, err = capfd.readouterr()
    assert out.splitlines()[0].endswith("s  running the script: python train.py two words")
    assert out.splitlines()[1:] == ["two words True", f"{CALLBACK} 1", "no end of line"]
    assert err.splitlines() == ["['the-run', '/runs', '3', '10.0.0.2:6379']"]
    assert build_outcome(ending).message.endswith(
        "code 5 before any fit():\n['the-run', '/runs', '3', '10.0.0.2:6379']"
    )


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (
            """
            def load():
                raise ValueError("no rows")
            load()
            """,
            "code 1 before any fit(): ValueError: no rows (train.py, line 3, in load)",
        ),
        (
            """
            import sys
            for number in range(30):
                print(f"(RayTrainWorker pid=12{number}, ip=10.0.0.3) a line of a rank", file=sys.stderr)
            sys.exit("no data")
            """,
            "code 1 before any fit():\nno data",
        ),
        (
            """
            import json, sys
            try:
                json.loads("{")
            except ValueError as error:
                raise KeyError("config") from error
            """,
            "code 1 before any fit(): KeyError: 'config' (train.py, line 6, in <module>)",
        ),
        (
            """
            import logging, sys
            try:
                {}["handled"]
            except KeyError:
                logging.exception("carrying on")
            for number in range(20):
                print("line", number, file=sys.stderr)
            sys.exit("no data")
            """,
            "line 18\nline 19\nno data",
        ),
        (
            """
            import logging, sys
            try:
                {}["handled"]
            except KeyError:
                logging.exception("carrying on")
            sys.exit(2)
            """,
            "    {}[\"handled\"]\n    ~~^^^^^^^^^^^\nKeyError: 'handled'",
        ),
        (
            """
            import no_such_module
            """,
            "No module named 'no_such_module' (train.py, line 2, in <module>)",
        ),
    ],
)
def test_the_exception_that_ended_a_script_comes_first(folder: Path, code: str, message: str) -> None:
    outcome = build_outcome(run(folder, code))
    assert outcome.message.endswith(message)
    assert (outcome.reason == "EntrypointNotUsable") == ("no_such_module" in code)


def test_rejects_a_command_that_cannot_be_started(folder: Path) -> None:
    with pytest.raises(JobRefused) as caught:
        run(folder, "", entrypoint=["no-such-program"])
    assert caught.value.failure.reason == "EntrypointNotUsable"
    assert "trainer.entrypoint: no-such-program cannot be started: No such file or directory" in str(caught.value)


def test_the_head_can_kill_a_script_and_its_descendants(folder: Path) -> None:
    code = """
        import subprocess, sys
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        open("pid", "w").write(str(child.pid))
        child.wait()
    """
    scripts: Scripts = []
    endings: list[Ending] = []
    thread = threading.Thread(target=lambda: endings.append(run(folder, code, scripts=scripts)))
    thread.start()
    while not scripts or not (folder / "pid").exists() or not (folder / "pid").read_text():
        assert thread.is_alive()
    kill_child(scripts[0])
    thread.join(30)
    assert "was killed by SIGKILL" in str(endings)
    stat = Path("/proc", (folder / "pid").read_text(), "stat")
    assert not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z"


HOOKED = """
    import os, sys
    sys.path.insert(0, os.environ["MODULES"])
    from railhead.driver.script import import_hooks as hooks
    seen = []
    sys.meta_path.insert(0, hooks.AfterImport({"here": seen.append, "absent": seen.append, "pkg.sub": seen.append}))
    try:
        import absent
    except ImportError as error:
        print(error)
    import here, pkg.sub, pkg.sub
    assert seen == [here, pkg.sub] and here.value == 1, seen
    assert "exec_module" not in vars(here.__spec__.loader)
    ray = type(sys)("ray")
    ray.init = lambda address=None, **options: (address, options)
    os.environ.update(RAILHEAD_POD_IP="10.0.0.2", RAY_ADDRESS="10.0.0.2:1")
    hooks.use_own_node(ray)
    print(ray.init(), ray.init("auto", namespace="a"), ray.init(address="10.0.0.2:1"), ray.init("local"))
"""


def test_hooks_run_right_after_an_import(tmp_path: Path) -> None:
    (tmp_path / "here.py").write_text("value = 1")
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").write_text("")
    (tmp_path / "pkg" / "sub.py").write_text("")
    command = [sys.executable, "-c", textwrap.dedent(HOOKED)]
    done = subprocess.run(command, env={**os.environ, "MODULES": str(tmp_path)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    mine = {"_node_ip_address": "10.0.0.2"}
    assert done.stdout.splitlines() == [
        "No module named 'absent'",
        f"{(None, mine)} {('auto', {'namespace': 'a', **mine})} {('10.0.0.2:1', mine)} {('local', {})}",
    ]


def test_sitecustomize_imports_no_hooks_without_a_script(tmp_path: Path) -> None:
    code = "import sys; from railhead.driver.site import customize; customize('/x/sitecustomize.py'); "
    code += "print('railhead.driver.script.import_hooks' in sys.modules)"
    for value in ("", "1"):
        command = [sys.executable, "-S", "-c", "import sys; sys.path[:0] = sys.argv[1:]; " + code, *sys.path]
        done = subprocess.run(command, env={**os.environ, SCRIPT: value}, capture_output=True, text=True)
        assert done.stdout.split() == [str(bool(value))], done.stderr


def make_trainer() -> DataParallelTrainer:
    from ray.train import RunConfig, ScalingConfig

    config = RunConfig(name="the-run", storage_path=os.environ["RAILHEAD_STORAGE_PATH"])
    return DataParallelTrainer(print, scaling_config=ScalingConfig(num_workers=2), run_config=config)


def test_a_ray_without_a_hook_also_fails_the_job_from_a_script(
    in_script: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(data_parallel_trainer.DataParallelTrainer, "_initialize_and_run_controller")
    with pytest.raises(JobRefused):
        script_fit.watch_trainers(data_parallel_trainer)
    ending = decide_ending(1, fit=in_script.script.read().fit, failure=None, last_lines=["JobRefused"])
    assert build_outcome(ending).outcome == "Configuration"
    assert build_outcome(ending).reason == "RayTrainNotUsable"


@pytest.mark.filterwarnings("ignore")
def test_records_each_fit_and_the_last_one_counts(in_script: Mailbox) -> None:
    def fail(trainer: object) -> None:
        raise RuntimeError("no")

    def succeed(trainer: object) -> str:
        tell(Mailbox(Path(os.environ[e.TEMP]), fit=RunContext.read().fit).controller, has_returned=True)
        return "result"

    assert script_fit.watch_fit(make_trainer(), succeed) == "result"
    assert in_script.script.read().fit == Fit(1, True)
    tell(in_script.controller, failure=OUT_OF_MEMORY)
    with pytest.raises(RuntimeError):
        script_fit.watch_fit(make_trainer(), fail)
    failed = in_script.script.read().fit
    assert failed is not None and failed.failure is not None
    assert (failed.number, failed.has_ended, failed.failure.reason) == (2, True, "RayTrainFailed")
    with pytest.raises(JobRefused):
        script_fit.watch_fit(DataParallelTrainer(lambda one, two: None), lambda trainer: "result")
    rejected = in_script.script.read().fit
    assert rejected is not None and rejected.failure is not None
    assert rejected.failure.message.startswith("trainer.entrypoint: train_loop_per_worker: the function takes 2")
    script_fit.watch_fit(make_trainer(), succeed)
    with pytest.raises(AttemptFailed, match="did not report that the training function returned on every rank"):
        script_fit.watch_fit(make_trainer(), lambda trainer: "the previous fit()'s success does not count")
    silent = in_script.script.read().fit
    assert silent is not None and silent.failure is not None
    assert (silent.has_ended, silent.failure.reason) == (True, "TrainFunctionNotReturned")
