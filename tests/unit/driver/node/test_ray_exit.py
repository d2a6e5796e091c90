"""Why Ray's head ended, from what `ray start` printed."""

from __future__ import annotations

from railhead.driver.node.ray_exit import explain_ray_exit

STATISTICS = "\n".join(
    f"\tGcsService.grpc_server.Call{n} - {n} total (0 active), Execution time: {n} ms" for n in range(200)
)
ERROR = "[2026-01-01 00:00:00,000 C 7 7] (raylet) main.cc:1: Check failed: no room"


def describe(*ended: str, log: str = STATISTICS) -> str:
    error = "2026-01-01 00:00:00,000\tERR scripts.py:87 -- "
    processes = "".join(f"{error}{each}\n" for each in ended)
    return (
        f"Ray runtime started.\n\n{error}Some Ray subprocesses exited unexpectedly:\n{processes}\n"
        f"{error}----- BEGIN raylet.out tail (exit code(s)=1) -----\n{error}{log}\n\n"
        f"{error}----- END raylet.out tail (exit code(s)=1) -----\n{error}Remaining processes will be killed.\n"
    )


def test_a_process_that_was_killed_is_named_and_nothing_of_its_log() -> None:
    assert explain_ray_exit(1, describe("gcs_server [exit code=-9]", log=f"Ready\n{ERROR}")) == (
        "Ray's head ended because its process gcs_server was killed by SIGKILL, as happens when the head pod runs out "
        "of memory (spec.head.resources)"
    )


def test_a_process_that_failed_is_quoted_with_its_last_error() -> None:
    text = explain_ray_exit(
        1, describe("raylet [exit code=1]", "agent [exit code=-6]", log=f"Ready\n{ERROR}\n{STATISTICS}")
    )
    assert text == (
        "Ray's head ended because its process raylet exited with code 1 and its process agent was killed by SIGABRT:\n"
        + ERROR
    )


def test_without_a_word_of_ray_the_last_whole_lines_are_quoted() -> None:
    text = explain_ray_exit(3, f"{STATISTICS}\nUsage: ray start\nError: no such option")
    assert text.startswith("Ray's head exited with code 3: \tGcsService") and len(text) < 600
    assert text.endswith("\nUsage: ray start\nError: no such option")
    assert explain_ray_exit(3, "x" * 10_000).endswith(" " + "x" * 500)
