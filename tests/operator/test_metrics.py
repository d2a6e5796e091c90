"""The metrics of a real operator after a job, from its probe port."""

from __future__ import annotations

import ssl
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from railhead.controller.watch_guard import LATE_SECONDS
from railhead.local.addresses import free_port
from railhead.local.control_plane import ControlPlane
from railhead.local.install import Kubectl
from railhead.pki import issue, make_ca
from tests.operator.account import make_account
from tests.operator.audit import AuditLog
from tests.operator.cluster import Cluster
from tests.operator.conftest import make_cluster
from tests.operator.running import RunningOperator
from tests.operator.test_report_tls import NOW
from tests.operator.test_writes import WORKERS, play, wait_last_write
from tests.waiting import wait_until


def read(cluster: Cluster) -> dict[tuple[str, ...], float]:
    families = text_string_to_metric_families(cluster.operator.metrics())
    return {(sample.name, *sample.labels.values()): sample.value for family in families for sample in family.samples}


def count_requests(audit: AuditLog, namespace: str | None = None) -> Counter[tuple[str, str, str]]:
    """The requests of one namespace or of all, by verb, resource and code."""
    return Counter((each.verb, each.resource, str(each.code)) for each in audit.requests(namespace))


def wait_listed(cluster: Cluster) -> None:
    """Until the operator, which another test may have just restarted, has listed the jobs: a later one is known."""
    other = make_cluster(cluster.server, cluster.operator)
    other.apply("listed", suspend=True)
    other.wait_phase("listed", "Suspended")


def test_the_metrics_of_a_jobs_life(cluster: Cluster, audit: AuditLog) -> None:
    wait_listed(cluster)
    # The operator counts the requests for all jobs, and those of other tests may still be there.
    earlier = count_requests(audit)
    before = read(cluster)
    play(cluster, "counted")
    wait_last_write(cluster, audit)
    last = ("railhead_api_requests_total", "200", "pods", "delete")
    wait_until("its answer", lambda: read(cluster).get(last, 0.0) - before.get(last, 0.0) >= WORKERS)
    after = read(cluster)
    everywhere = count_requests(audit) - earlier

    def more(*sample: str) -> float:
        return after.get(sample, 0.0) - before.get(sample, 0.0)

    asked = count_requests(audit, cluster.namespace)
    assert after["railhead_leader",] == 1
    assert more("railhead_jobs", cluster.namespace, "Succeeded") == 1
    assert more("railhead_reports_total", "202") == 3
    for verb, resource in (("create", "pods"), ("delete", "pods"), ("create", "secrets")):
        [code] = [code for v, r, code in asked if (v, r) == (verb, resource)]
        counted = more("railhead_api_requests_total", code, resource, verb)
        assert asked[verb, resource, code] <= counted <= everywhere[verb, resource, code]
    assert more("railhead_pass_seconds_count", "done") >= 3
    assert more("railhead_finished_jobs_total", "Succeeded", cluster.namespace) == 1
    assert sum(more("railhead_report_delay_seconds_count", each) for each in ("state", "checkpoint", "progress")) > 0
    assert {after["railhead_watch_age_seconds", "", each] < LATE_SECONDS for each in ("pods", "trainjobs")} == {True}
    assert after["railhead_queue_oldest_seconds",] < 60
    assert abs(after["railhead_clock_offset_seconds",]) < 5, "one machine"
    assert after["process_resident_memory_bytes",] > 0


def fetch(port: int, token: str, context: ssl.SSLContext) -> tuple[int, str]:
    """Status and text of the metrics over HTTPS."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(f"https://127.0.0.1:{port}/metrics", headers=headers)
    try:
        with urllib.request.urlopen(request, context=context, timeout=10) as response:
            return int(response.status), response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def reviews_in(text: str) -> dict[tuple[str, str, str], float]:
    """The operator's review requests by verb, resource and code."""
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return {
        (sample.labels["verb"], sample.labels["resource"], sample.labels["code"]): sample.value
        for sample in samples
        if sample.labels.get("resource", "").endswith("reviews")
    }


@pytest.mark.usefixtures("operator")  # it has installed the CRD
def test_metrics_with_authentication_need_a_token_with_the_right(
    audited_plane: tuple[ControlPlane, AuditLog], tmp_path: Path
) -> None:
    """The operator has its chart's rights and no others."""
    plane = audited_plane[0]
    kubectl, namespace, port = Kubectl(plane.binaries / "kubectl", plane.kubeconfig), "metered", free_port()
    ca = make_ca("somebody", now=NOW, days=2)
    pair = issue(ca, "railhead", now=NOW, days=1, names=["127.0.0.1"])
    for name, text in (("tls.crt", pair.certificate), ("tls.key", pair.key), ("ca.crt", ca.certificate)):
        (tmp_path / name).write_text(text)
    context = ssl.create_default_context(cadata=ca.certificate)

    def get(token: str) -> int:
        return fetch(port, token, context)[0]

    values = {"metrics": {"authentication": True}, "watchNamespaces": [namespace], "certManager": {"enabled": True}}
    with make_account(plane, namespace, values, tmp_path / "kubeconfig") as rendered:
        [reader] = [r for r in rendered.of("ClusterRole") if "metrics-reader" in r["metadata"]["name"]]
        for name in ("scraper", "stranger"):
            kubectl("create", "serviceaccount", name, "-n", namespace)
        scraper, stranger = (kubectl("create", "token", name, "-n", namespace) for name in ("scraper", "stranger"))
        role, account = f"--clusterrole={reader['metadata']['name']}", f"--serviceaccount={namespace}:scraper"
        kubectl("create", "clusterrolebinding", "scraper", role, account)
        flags = [f"--watch-namespace={namespace}", f"--report-tls={tmp_path}", f"--metrics-listen=127.0.0.1:{port}"]
        metered = RunningOperator(tmp_path / "kubeconfig", tmp_path, namespace=namespace, flags=flags)
        try:
            metered.start()  # the probes answer without a token
            wait_until("the scraper's metrics", lambda: get(scraper.strip()) == 200)
            wait_until("the rejection of the stranger", lambda: get(stranger.strip()) == 403)
            wait_until("the rejection of a guess", lambda: get("guessed") == 401)
            assert get("") == 401
            scrapes = [reviews_in(fetch(port, scraper.strip(), context)[1]) for _ in range(5)]
            assert scrapes == scrapes[:1] * 5, "a scrape costs no request"
            granted = {right[1:] for right in rendered.grants("ClusterRole")}
            assert {(verb, resource) for verb, _, resource in granted} == {name[:2] for name in scrapes[0]}
            assert {name[2] for name in scrapes[0]} == {"201"}, "none of them was refused"
            with pytest.raises(urllib.error.HTTPError, match="404"):
                metered.metrics()
        finally:
            metered.stop()
            kubectl("delete", "clusterrolebinding", "scraper")
