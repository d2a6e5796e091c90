"""mypy finds a misspelt field of the status, a wrong type and a misspelt failure class; correct ones pass."""

from __future__ import annotations

from pathlib import Path

from mypy import api

PROJECT = Path(__file__).resolve().parents[2]
SNIPPET = """
from railhead.api.status import JobStatus, WorkerLosses, WorkersStatus, replace_losses, replace_status
from railhead.contract.failure import Failure, FailureClass

STATUS = replace_status(JobStatus(), phase="Running", workers=WorkersStatus(desired=3), clean_up_time="now")
Failure(FailureClass.OUT_OF_MEMORY, "OOMKilled", "raise its memory")
replace_status(STATUS, cleanup_time="now")
replace_status(STATUS, phase="Runing")
replace_status(STATUS, workers={"desired": 3})
replace_status(STATUS, workers=WorkersStatus(desird=3))
replace_status(STATUS, workers=None)
WorkersStatus(desired="3")
STATUS.phase = "Failed"
Failure("OutOfMemory", "OOMKilled", "raise its memory")
Failure(FailureClass.OUT_OF_MEMRY, "OOMKilled", "raise its memory")
replace_losses(WorkerLosses(), refused="1")
"""
PACKAGE = PROJECT / "operator" / "railhead"
# Where mypy does not check the changes of a copied model, since `make_replace` would ask for the required fields too.
UNCHECKED = {
    "api/conditions.py": "Condition",
    "api/model.py": "make_replace itself",
    "client/submit/rendering.py": "TrainJobSpec",
    "planning/amendments/attempt_list.py": "Attempt",
    "planning/decisions/continued_run.py": "Condition",
}


def test_misspelt_fields_and_classes_are_type_errors(tmp_path: Path) -> None:
    file = tmp_path / "snippet.py"
    file.write_text(SNIPPET)
    report, problems, _ = api.run(["--config-file", str(PROJECT / "pyproject.toml"), str(file)])
    assert not problems
    found = [line.split(":")[1] for line in report.splitlines() if ": error:" in line]
    assert found == [str(line) for line in range(7, 17)], report


def test_copies_of_models_without_required_fields_are_checked() -> None:
    found = {str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py") if "model_copy(" in path.read_text()}
    assert found == set(UNCHECKED)
