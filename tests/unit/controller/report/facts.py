"""A job, its head and a report, for tests of the report endpoint."""

from __future__ import annotations

import base64
import json
from datetime import timedelta
from typing import Any

from railhead.api.status import parse_status
from railhead.contract.report import AUDIENCE, Report
from railhead.controller.report.authority import JobFacts, Speaker
from railhead.controller.report.server import parse_report
from railhead.planning.pod_view import PodView
from tests.model.faults import NOON
from tests.unit.builders import RUNNING_STATUS, UID, make_head, make_worker

HEAD = make_head()
SPEAKER = Speaker(namespace="default", pod=HEAD.name, pod_uid=HEAD.uid)


def make_report(**changes: Any) -> Report:
    """A valid report of the head of the first attempt."""
    job = {"namespace": "default", "name": "digits", "uid": UID}
    values = {**job, "attempt": 1, "state": "RUNNING", "reports": 4, "joined": 2, **changes}
    return parse_report(json.dumps(values).encode())


def make_token(speaker: Speaker = SPEAKER, *, names: Any = None, **claims: Any) -> str:
    """As the API server issues it for a pod, valid for an hour from noon; `names` replaces what names the pod."""
    pod = {"name": speaker.pod, "uid": speaker.pod_uid}
    values = {
        "aud": [AUDIENCE],
        "exp": (NOON + timedelta(hours=1)).timestamp(),
        "kubernetes.io": {"namespace": speaker.namespace, "pod": pod} if names is None else names,
        **claims,
    }
    return ".".join((encode({"alg": "RS256"}), encode(values), "signature"))


def encode(values: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(values).encode()).decode().rstrip("=")


def make_facts(*pods: PodView, uid: str = UID, **status: Any) -> JobFacts:
    """A running job, by default with a head and a worker."""
    return JobFacts(uid, parse_status({**RUNNING_STATUS, **status}), pods or (HEAD, make_worker(0)))
