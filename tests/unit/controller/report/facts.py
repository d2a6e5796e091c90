"""A job, its head and a report, for tests of the report endpoint."""

from __future__ import annotations

import json
from typing import Any

from railhead.api.status import parse_status
from railhead.contract.report import Report
from railhead.controller.report.authority import JobFacts, Speaker
from railhead.controller.report.parse import parse_report
from railhead.planning.pod_view import PodView
from tests.unit.builders import RUNNING_STATUS, UID, make_head, make_worker

HEAD = make_head()
SPEAKER = Speaker(namespace="default", pod=HEAD.name, pod_uid=HEAD.uid)


def make_report(**changes: Any) -> Report:
    """A valid report of the head of the first attempt."""
    job = {"namespace": "default", "name": "digits", "uid": UID}
    values = {**job, "attempt": 1, "state": "RUNNING", "reports": 4, "joined": 2, **changes}
    return parse_report(json.dumps(values).encode())


def make_facts(*pods: PodView, uid: str = UID, **status: Any) -> JobFacts:
    """A running job, by default with a head and a worker."""
    return JobFacts(uid, parse_status({**RUNNING_STATUS, **status}), pods or (HEAD, make_worker(0)))
