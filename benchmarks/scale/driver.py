"""Stands for the drivers of running jobs: reports over HTTPS with the tokens that a kubelet would give their heads."""

from __future__ import annotations

import json
import ssl
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime

import aiohttp

from benchmarks.run import RunFailed
from benchmarks.scale.api import Api, Object
from benchmarks.scale.plane import NAMESPACE
from railhead.contract.answer import Answer
from railhead.contract.report import AUDIENCE, CommittedCheckpoint, Report
from railhead.contract.times import format_time

ACCOUNT = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default/token"
CONFIG_MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
AUTHORITY = "report-ca.crt"
METRICS = {"loss": "0.12345678", "accuracy": "0.98765432", "epoch": "7", "step": "123456"}


async def create_token(api: Api, head: Object) -> str:
    """Bound to the pod, as the kubelet projects it."""
    reference = {"kind": "Pod", "apiVersion": "v1", "name": head["metadata"]["name"], "uid": head["metadata"]["uid"]}
    spec = {"audiences": [AUDIENCE], "expirationSeconds": 3600, "boundObjectRef": reference}
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    answer = await api.request("POST", ACCOUNT, json.dumps(body).encode())
    return str(answer["status"]["token"])


async def find_authority(api: Api) -> ssl.SSLContext:
    """What the jobs' pods trust: all have the same CA in their input."""
    for item in (await api.request("GET", f"{CONFIG_MAPS}?limit=50"))["items"]:
        if AUTHORITY in (item.get("data") or {}):
            return ssl.create_default_context(cadata=item["data"][AUTHORITY])
    raise RunFailed(f"no ConfigMap has {AUTHORITY}")


@dataclass
class Driver:
    """One job's driver. Counts the endpoint's answers by their status.

    `next_seconds`: after how long new metrics are of use, by the last answer.
    """

    job: Object
    token: str
    workers: int
    url: str
    answers: Counter[int]
    reports: int = 0
    checkpoint: CommittedCheckpoint | None = None
    next_seconds: float = 0.0

    @property
    def name(self) -> str:
        return str(self.job["metadata"]["name"])

    def commit(self) -> int:
        """A new checkpoint for the next report; its index."""
        index = self.checkpoint.index + 1 if self.checkpoint else 0
        self.checkpoint = CommittedCheckpoint(
            f"s3://bucket/runs/{self.name}/checkpoint_{index:06}", index, _now(), METRICS, 1
        )
        return index

    def build_report(self) -> Report:
        metadata = self.job["metadata"]
        return Report(
            namespace=metadata["namespace"],
            name=self.name,
            uid=metadata["uid"],
            attempt=1,
            state="RUNNING",
            reports=self.reports,
            joined=self.workers,
            workers=self.workers,
            metrics=METRICS | {"step": str(self.reports)},
            time=_now(),
            checkpoint=self.checkpoint,
            run_uri=f"s3://bucket/runs/{self.name}",
        )

    async def report(self, session: aiohttp.ClientSession) -> None:
        """Raises aiohttp.ClientError."""
        self.reports += 1
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        async with session.post(self.url, data=self.build_report().to_json(), headers=headers) as response:
            answer = await response.read()
            self.answers[response.status] += 1
            if response.status == 202:
                self.next_seconds = Answer.from_json(answer).next_report_seconds


def _now() -> str:
    return format_time(datetime.now(UTC))
