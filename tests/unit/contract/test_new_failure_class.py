"""A new failure class is one row of the table: a copy of the package with one more works everywhere."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import railhead

PACKAGE = Path(railhead.__file__).parent
NAME = ('    METRIC_RULE = "MetricRule"\n', '    NETWORK = "Network"\n')
ROW = (
    "POLICIES: dict[FailureClass, FailurePolicy] = {\n",
    "    FailureClass.NETWORK: FailurePolicy(\n"
    '        113, Payer.INFRASTRUCTURE, _CLUSTER, "a switch failed", ends_script=True, suspects_node=True,\n'
    "        comes_from_outside=True,\n"
    "    ),\n",
)
USES = """
from railhead.api.crd import build_crd
from railhead.api.goodput import FROM_OUTSIDE
from railhead.api.status import parse_status
from railhead.client.explain.causes import choose_cause
from railhead.contract.failure import Failure, FailureClass
from railhead.driver.head.script_process import decide_ending
from railhead.driver.mailbox.values import Fit
from railhead.planning.facts.pod_failure import apply_rules
from railhead.planning.facts.suspects import is_likely, is_sure
from tests.unit.builders import make_spec

kind = FailureClass("Network")
properties = build_crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
rules = properties["spec"]["properties"]["failurePolicy"]["properties"]["rules"]["items"]["properties"]
on_class = rules["onClass"]
assert "Network" in on_class["items"]["enum"] and on_class["maxItems"] >= len(on_class["items"]["enum"])
class_ = properties["status"]["properties"]["failure"]["properties"]["class"]
assert "Network: a switch failed" in class_["description"]

limit = properties["spec"]["properties"]["noProgressLimit"]["description"]
assert "Network" in limit and "Configuration" not in limit and "Application" not in limit, limit
assert kind in FROM_OUTSIDE

assert FailureClass.of_exit_code(113) is kind and FailureClass.parse("Network") is kind
failed = Failure(kind, "SwitchFailed", "switch 3 is off")
ending = decide_ending(1, fit=Fit(1, has_ended=True, failure=failed), failure=None, last_lines=[])
assert ending == failed, "the exit code of the script tells nothing"

failure = parse_status({"failure": {"class": "Network", "reason": "SwitchFailed", "attempt": 1}}).failure
assert failure.class_ is kind and is_likely(failure) and not is_sure(failure)
spec = make_spec(failurePolicy={"rules": [{"action": "Fail", "onClass": ["Network"]}]})
assert apply_rules(spec, failure)[1] == "failurePolicy.rules[0]"
assert choose_cause("SwitchFailed", kind).sentence == "A switch failed."
"""


def test_a_new_class_is_one_row_of_the_table(tmp_path: Path) -> None:
    copy = tmp_path / "railhead"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__", "go"))
    table = copy / "contract" / "failure.py"
    text = table.read_text()
    for place, addition in (NAME, ROW):
        assert text.count(place) == 1
        text = text.replace(place, place + addition)
    table.write_text(text)
    project = Path(__file__).resolve().parents[3]
    variables = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{project}"}
    ended = subprocess.run([sys.executable, "-c", USES], env=variables, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
