"""The report endpoint's certificate by cert-manager: who signs, for which names, and no right on Secrets is left."""

from __future__ import annotations

from typing import Any

from tests.chart.chart import NAMESPACE, Chart
from tests.chart.test_operator import flags

ON: dict[str, Any] = {"certManager": {"enabled": True}}
SECRETS = {(NAMESPACE, verb, "", "secrets") for verb in ("get", "patch", "create")}


def test_the_operator_reads_what_the_certificate_stores(chart: Chart) -> None:
    rendered = chart.render(ON)
    certificate = rendered.one("Certificate", "railhead-reports")["spec"]
    [volume] = [v for v in rendered.pod["spec"]["volumes"] if v["name"] == "report-tls"]
    [mount] = [m for m in rendered.container["volumeMounts"] if m["name"] == "report-tls"]
    assert volume["secret"]["secretName"] == certificate["secretName"]
    assert str(flags(rendered)["report_tls"]) == mount["mountPath"]
    host = flags(rendered)["report_url"].removeprefix("https://").partition(":")[0]
    assert host.replace("$(POD_NAMESPACE)", NAMESPACE) in certificate["dnsNames"]


def test_a_ca_of_its_own_signs_and_keeps_its_key(chart: Chart) -> None:
    """Drivers trust it for the whole life of a job."""
    rendered = chart.render(ON)
    certificate = rendered.one("Certificate", "railhead-reports")["spec"]
    authority = rendered.one("Certificate", "railhead-reports-ca")["spec"]
    issuer = rendered.one("Issuer", certificate["issuerRef"]["name"])["spec"]
    assert issuer == {"ca": {"secretName": authority["secretName"]}}
    assert authority["isCA"] is True
    assert authority["privateKey"]["rotationPolicy"] == "Never"
    assert rendered.one("Issuer", authority["issuerRef"]["name"])["spec"] == {"selfSigned": {}}


def test_an_issuer_of_the_cluster_takes_its_place(chart: Chart) -> None:
    reference = {"name": "company", "kind": "ClusterIssuer", "group": "cert-manager.io"}
    rendered = chart.render({"certManager": {"enabled": True, "issuerRef": reference}})
    assert rendered.of("Issuer") == []
    assert rendered.one("Certificate")["spec"]["issuerRef"] == reference


def test_no_right_on_secrets_is_left(chart: Chart) -> None:
    for values in ({}, {"watchNamespaces": ["a"]}):
        assert not chart.render({**ON, **values}).grants("Role") & SECRETS
        assert chart.render(values).grants("Role") & SECRETS
    alone = chart.render({**ON, "leaderElection": {"enabled": False}})
    assert alone.one("Role")["rules"] == []


def test_without_it_nothing_of_it_is_there(chart: Chart) -> None:
    rendered = chart.render()
    assert rendered.of("Certificate") == rendered.of("Issuer") == []
    assert flags(rendered)["report_tls"] is None
