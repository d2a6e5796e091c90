"""The report endpoint's certificate from cert-manager: its issuer and names, and no permission on Secrets remains."""

from __future__ import annotations

from typing import Any

from tests.chart.chart import NAMESPACE, Chart
from tests.chart.test_operator import flags

ON: dict[str, Any] = {"certManager": {"enabled": True}}
SECRETS = {(NAMESPACE, verb, "", "secrets") for verb in ("get", "patch", "create")}


def test_the_operator_mounts_the_certificates_secret(chart: Chart) -> None:
    rendered = chart.render(ON)
    certificate = rendered.one("Certificate", "railhead-reports")["spec"]
    [volume] = [v for v in rendered.pod["spec"]["volumes"] if v["name"] == "report-tls"]
    [mount] = [m for m in rendered.container["volumeMounts"] if m["name"] == "report-tls"]
    assert volume["secret"]["secretName"] == certificate["secretName"]
    assert str(flags(rendered)["report_tls"]) == mount["mountPath"]
    host = flags(rendered)["report_url"].removeprefix("https://").partition(":")[0]
    assert host.replace("$(POD_NAMESPACE)", NAMESPACE) in certificate["dnsNames"]


def test_the_releases_own_ca_signs_and_keeps_its_key(chart: Chart) -> None:
    """Drivers trust it for the lifetime of a job."""
    rendered = chart.render(ON)
    certificate = rendered.one("Certificate", "railhead-reports")["spec"]
    authority = rendered.one("Certificate", "railhead-reports-ca")["spec"]
    issuer = rendered.one("Issuer", certificate["issuerRef"]["name"])["spec"]
    assert issuer == {"ca": {"secretName": authority["secretName"]}}
    assert authority["isCA"] is True
    assert authority["privateKey"]["rotationPolicy"] == "Never"
    assert rendered.one("Issuer", authority["issuerRef"]["name"])["spec"] == {"selfSigned": {}}


def test_an_issuer_of_the_cluster_replaces_the_releases_ca(chart: Chart) -> None:
    reference = {"name": "company", "kind": "ClusterIssuer", "group": "cert-manager.io"}
    rendered = chart.render({"certManager": {"enabled": True, "issuerRef": reference}})
    assert rendered.of("Issuer") == []
    assert rendered.one("Certificate")["spec"]["issuerRef"] == reference


def test_no_permission_on_secrets_remains(chart: Chart) -> None:
    for values in ({}, {"watchNamespaces": ["a"]}):
        assert not chart.render({**ON, **values}).grants("Role") & SECRETS
        assert chart.render(values).grants("Role") & SECRETS
    alone = chart.render({**ON, "leaderElection": {"enabled": False}})
    assert alone.one("Role")["rules"] == []


def test_without_cert_manager_none_of_its_objects_are_rendered(chart: Chart) -> None:
    rendered = chart.render()
    assert rendered.of("Certificate") == rendered.of("Issuer") == []
    assert flags(rendered)["report_tls"] is None
