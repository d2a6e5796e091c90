"""The metrics of a real operator after a job, from its probe port."""

from __future__ import annotations

from collections import Counter

from prometheus_client.parser import text_string_to_metric_families

from tests.operator.audit import AuditLog
from tests.operator.cluster import Cluster
from tests.operator.test_writes import WORKERS, play, wait_last_write
from tests.waiting import wait_until


def read(cluster: Cluster) -> dict[tuple[str, ...], float]:
    families = text_string_to_metric_families(cluster.operator.metrics())
    return {(sample.name, *sample.labels.values()): sample.value for family in families for sample in family.samples}


def test_the_metrics_of_a_jobs_life(cluster: Cluster, audit: AuditLog) -> None:
    before = read(cluster)
    play(cluster, "counted")
    wait_last_write(cluster, audit)
    last = ("railhead_api_requests_total", "200", "pods", "delete")
    wait_until("its answer", lambda: read(cluster).get(last, 0.0) - before.get(last, 0.0) == WORKERS)
    after = read(cluster)

    def more(*sample: str) -> float:
        return after.get(sample, 0.0) - before.get(sample, 0.0)

    asked = Counter((r.verb, r.resource, str(r.code)) for r in audit.requests(cluster.namespace))
    assert after["railhead_leader",] == 1
    assert more("railhead_jobs", "Succeeded") == 1
    assert more("railhead_reports_total", "202") == 3
    for verb, resource in (("create", "pods"), ("delete", "pods"), ("create", "secrets")):
        [code] = [code for v, r, code in asked if (v, r) == (verb, resource)]
        assert more("railhead_api_requests_total", code, resource, verb) == asked[verb, resource, code]
    assert more("railhead_pass_seconds_count", "done") >= 3
    assert after["process_resident_memory_bytes",] > 0
