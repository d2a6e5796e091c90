"""The run of one fit(): written once, right before it, and read by the callbacks that Ray creates in this process."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from typing import Optional

from railhead.contract.report import RunWarning

_VARIABLE = "RAILHEAD_RUN"  # JSON; Ray creates callbacks without arguments


@dataclass(frozen=True)
class RunContext:
    """Attributes:
    run_uri: where the run keeps its checkpoints.
    claim: this attempt's, as in `storage.fence`; empty = not claimed.
    resumed_from: URI of the checkpoint that this fit() starts from, empty = none.
    warning: what the user should change, or None.
    is_own: it has the job's run.name and run.storagePath.
    """

    run_uri: str
    claim: str = ""
    resumed_from: str = ""
    warning: Optional[RunWarning] = None
    is_own: bool = True

    def write(self) -> None:
        os.environ[_VARIABLE] = json.dumps(asdict(self))

    @staticmethod
    def read() -> RunContext:
        values = json.loads(os.environ[_VARIABLE])
        warning = values.pop("warning")
        return RunContext(**values, warning=RunWarning(**warning) if warning else None)
