"""Each benchmark is a program that cleans up and says what is wrong in the same way."""

from __future__ import annotations

from pathlib import Path

import benchmarks
import pytest
from benchmarks import command
from benchmarks.run import RunFailed


@pytest.mark.parametrize(
    ("raised", "code", "message"),
    [
        (RunFailed("the driver exited with code 1"), 1, "bench-x: the driver exited with code 1\n"),
        (TimeoutError("no 5 steps"), 1, "bench-x: no 5 steps\n"),
        (KeyboardInterrupt(), 130, "interrupted; everything was stopped\n"),
    ],
)
def test_an_end_before_the_result_has_a_message(
    raised: BaseException, code: int, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "interrupt_on_termination", lambda: None)

    def bench() -> int:
        raise raised

    assert command.run_program("bench-x", bench) == code
    assert capsys.readouterr().err == message


def test_no_benchmark_has_a_harness_of_its_own() -> None:
    files = Path(benchmarks.__file__).parent.rglob("*.py")
    assert [file.name for file in files if "interrupt_on_termination" in file.read_text()] == ["command.py"]
