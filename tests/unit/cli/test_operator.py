"""What the operator's flags accept, and what it reads of its pod. tests/chart/test_operator.py has the rest."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from railhead.cli.operator import add_arguments, read_network_policy, read_resolvers
from railhead.resources.base import JobNetworkPolicy

RESOLV_CONF = """# of the kubelet
search team.svc.cluster.local svc.cluster.local
nameserver 10.96.0.10
nameserver fd00:10:96::a
nameserver 127.0.0.53
nameserver ::1
nameserver fe80::1%eth0
nameserver
nameserver dns.example
options ndots:5
"""


def parse(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return parser.parse_args(["--report-url", "https://reports:8443", *arguments])


def test_the_servers_of_the_pods_resolv_conf_are_found(tmp_path: Path) -> None:
    file = tmp_path / "resolv.conf"
    file.write_text(RESOLV_CONF)
    assert read_resolvers(file) == ["10.96.0.10", "fd00:10:96::a"]
    assert read_resolvers(tmp_path / "absent") == []


def test_the_report_port_is_that_of_any_form_of_address() -> None:
    for listen in (":8443", "[::]:8443", "[fd00::5]:8443", "10.0.0.1:8443"):
        policy = read_network_policy(parse("--report-listen", listen))
        assert policy is not None and policy.report_port == 8443


def test_without_flags_jobs_reach_dns_at_the_ports_of_every_kind_of_cluster() -> None:
    """The pods of OpenShift's DNS listen at 5353, and most network plugins judge a connection by the pod's port."""
    egress = '[{"ports": [{"port": 443}]}]'
    policy = read_network_policy(parse("--job-egress", egress))
    assert policy is not None and policy.egress
    assert policy.dns_ports == JobNetworkPolicy().dns_ports == (53, 5353)


@pytest.mark.parametrize(
    ("flag", "value", "message"),
    [
        ("--probe-listen", "::1:8080", "brackets"),
        ("--metrics-listen", "8444", "host:port"),
        ("--report-listen", ":http", "host:port"),
        ("--job-dns-ports", "53,dns", "list of ports"),
        ("--job-dns-ports", "0", "list of ports"),
        ("--job-dns-ports", "", "list of ports"),
        ("--job-dns-to", "{}", "list of objects"),
    ],
)
def test_a_bad_value_is_refused_at_the_start(
    flag: str, value: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parse(f"{flag}={value}")
    error = capsys.readouterr().err
    assert flag in error
    assert message in error
