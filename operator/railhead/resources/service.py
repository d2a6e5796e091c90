"""The headless Service that gives each attempt's head a DNS name before it is ready."""

from __future__ import annotations

from typing import Any

from railhead.api import names
from railhead.resources.owner import JobRef, build_metadata


def build_service(job: JobRef) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": build_metadata(job, names.service_name(job.name, job.uid)),
        "spec": {
            "type": "ClusterIP",
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {names.LABEL_JOB_UID: job.uid, names.LABEL_ROLE: names.HEAD},
        },
    }
