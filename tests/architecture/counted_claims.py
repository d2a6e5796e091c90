"""Numbers that the documents state and the code has. Each pattern has one group: the number, or a word for it."""

from __future__ import annotations

import re
from pathlib import Path

from tests.architecture.test_sizes import FILE_LINES, FUNCTION_LINES
from tests.fuzz.seeds import CASES
from tools.all_tests import PARTS
from tools.other_kubernetes import VERSIONS

from railhead.api.log_options import MOST_FORWARDED
from railhead.api.names import MAX_JOB_NAME
from railhead.api.source import MAX_INLINE_BYTES
from railhead.contract.digest import CHARS
from railhead.contract.report import MAX_METRIC_NAME, MAX_METRICS
from railhead.controller.watch_guard import SWEEP_SECONDS
from railhead.driver.container.packages import write_version
from railhead.driver.ray.supported_versions import OLDEST
from railhead.driver.storage.storage_call import LONGEST_WAIT_SECONDS
from railhead.listener import MOST_STRANGERS
from railhead.local.control_plane.binaries import GO_VERSION, KUBERNETES_VERSION
from railhead.local.node.agent import MAX_PODS
from railhead.planning.facts.deadlines import FIRST_REPORT_SECONDS, HOLD_SECONDS, OUTAGE_SECONDS
from railhead.planning.facts.lost_workers import ROUNDS_WITHOUT_CHECKPOINT
from railhead.planning.observed import DENIED_LIMIT_SECONDS
from railhead.planning.pod_view import SILENT_GRACE_SECONDS, STUCK_SECONDS, UNANSWERED_SECONDS
from railhead.resources.sizes import HEAD_WORKERS

PROJECT = Path(__file__).resolve().parents[2]
SCHEDULES = int(PARTS["schedules"].variables["RAILHEAD_SCHEDULES"])
PYTHON = re.findall(r'requires-python = ">=([\d.]+)"', (PROJECT / "pyproject.toml").read_text())
WORDS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
NUMBER = rf"(\d[\d,]*|{'|'.join(WORDS)})"


def minor(version: str) -> str:
    return version.rpartition(".")[0]


# `#` stands for a number; spaces also for the end of a line.
CLAIMS: tuple[tuple[str, float | str], ...] = (
    ("the first # numbers", MAX_METRICS),
    ("names of up to # characters", MAX_METRIC_NAME),
    ("# random schedules", 2 * SCHEDULES),  # under one operator, and under two
    ("# mutated jobs", CASES),
    ("and at most # lines; a function", FILE_LINES),
    ("lines; a function at most #", FUNCTION_LINES),
    ("job's name has at most # characters", MAX_JOB_NAME),
    ("# KiB in all", MAX_INLINE_BYTES / 1024),
    ("`?All`? up to # workers", MOST_FORWARDED),
    ("each worker beyond # there", HEAD_WORKERS),
    ("(?:more than|at most) # rounds", ROUNDS_WITHOUT_CHECKPOINT),
    ("denied object is tried again every # s", DENIED_LIMIT_SECONDS),
    (r"(?:of which |\()at most # s(?:econds)?(?: count| of it)", SILENT_GRACE_SECONDS),
    ("has not responded for # s(?:econds)? beyond", UNANSWERED_SECONDS),
    ("next attempt begins # seconds after", UNANSWERED_SECONDS),
    ("Terminating # minutes beyond", STUCK_SECONDS / 60),
    ("rejected the others for # seconds", HOLD_SECONDS),
    (r"released after # min(?:utes)?\b", OUTAGE_SECONDS / 60),
    ("heard of the attempt for # minutes", FIRST_REPORT_SECONDS / 60),
    ("reported within # minutes of its start", FIRST_REPORT_SECONDS / 60),
    (r"after 0\.5, 1, 2, (?:4, )?\.\.\. # s", LONGEST_WAIT_SECONDS),
    ("one list of the jobs' metadata every # minutes", SWEEP_SECONDS / 60),
    ("# strangers at a time", MOST_STRANGERS),
    ("# bits of SHA-256", 4 * CHARS),
    ("node runs up to # pods", MAX_PODS),
    (r"Go (\d[\d.]*\d) or newer", ".".join(map(str, GO_VERSION))),
    (r"Linux[^.|]* with Python (\d[\d.]*\d) or newer", PYTHON[0]),
    (r"tested with Kubernetes (\d[\d.]*\d)", minor(KUBERNETES_VERSION)),
    (r"its API and commands also with (\d[\d.]*\d)", min(VERSIONS)),
    (r"gangs also with (\d[\d.]*\d)", max(VERSIONS)),
    (r"works with Ray (\d[\d.]*\d)", write_version(OLDEST)),
)


def find_numbers(pattern: str, text: str) -> list[float | str]:
    """What the text states where it makes this claim."""
    return [_read(number) for number in re.findall(pattern.replace("#", NUMBER), " ".join(text.split()))]


def _read(number: str) -> float | str:
    if "." in number:
        return number
    return 1 + WORDS.index(number) if number in WORDS else float(number.replace(",", ""))
