"""Evaluates networking.k8s.io/v1 NetworkPolicies: may this pod connect to that port of that pod?

As Kubernetes documents them: a pod that no policy of a direction selects is open in that direction; the policies that
select it add up. A connection needs both the source's egress and the destination's ingress.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from typing import Any

Object = Mapping[str, Any]


@dataclass(frozen=True)
class Pod:
    """One end of a connection.

    Attributes:
        ports: its named ports.
        is_external: no pod but an address, which only an ipBlock selects.
    """

    namespace: str
    labels: Mapping[str, str] = field(default_factory=dict)
    ip: str = "10.0.0.1"
    ports: Mapping[str, int] = field(default_factory=dict)
    is_external: bool = False


@dataclass(frozen=True)
class Network:
    """All policies, and the labels of the namespaces besides their names."""

    policies: Sequence[Object]
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def allows(self, source: Pod, target: Pod, port: int, protocol: str = "TCP") -> bool:
        return self._is_open("Egress", source, target, target, port, protocol) and self._is_open(
            "Ingress", target, source, target, port, protocol
        )

    def _is_open(self, way: str, own: Pod, peer: Pod, target: Pod, port: int, protocol: str) -> bool:
        """`own` is the pod that policies of this direction select."""
        selecting = [policy for policy in self.policies if way in _find_types(policy) and self._selects(policy, own)]
        if not selecting:
            return True
        peers, ports = ("from", "ports") if way == "Ingress" else ("to", "ports")
        return any(
            self._has_peer(policy, rule.get(peers), peer) and _has_port(rule.get(ports), target, port, protocol)
            for policy in selecting
            for rule in policy["spec"].get(way.lower()) or []
        )

    def _selects(self, policy: Object, pod: Pod) -> bool:
        if pod.is_external or policy["metadata"]["namespace"] != pod.namespace:
            return False
        return matches(policy["spec"].get("podSelector") or {}, pod.labels)

    def _has_peer(self, policy: Object, peers: Sequence[Object] | None, pod: Pod) -> bool:
        """A rule without peers is for all of them."""
        return not peers or any(self._is_peer(policy["metadata"]["namespace"], peer, pod) for peer in peers)

    def _is_peer(self, namespace: str, peer: Object, pod: Pod) -> bool:
        if "ipBlock" in peer:
            block, address = peer["ipBlock"], ip_address(pod.ip)
            within = address in ip_network(block["cidr"])
            return within and not any(address in ip_network(each) for each in block.get("except") or [])
        if pod.is_external:
            return False
        if "namespaceSelector" not in peer:
            in_namespace = pod.namespace == namespace
        else:
            labels = {"kubernetes.io/metadata.name": pod.namespace, **self.namespaces.get(pod.namespace, {})}
            in_namespace = matches(peer["namespaceSelector"] or {}, labels)
        return in_namespace and matches(peer.get("podSelector") or {}, pod.labels)


def _find_types(policy: Object) -> Sequence[str]:
    """Ingress by default, and Egress if there are rules for it."""
    spec = policy["spec"]
    return spec.get("policyTypes") or ["Ingress", *(["Egress"] if spec.get("egress") else [])]


def matches(selector: Object, labels: Mapping[str, str]) -> bool:
    """An empty selector matches everything."""
    return (selector.get("matchLabels") or {}).items() <= labels.items() and all(
        _meets(each, labels) for each in selector.get("matchExpressions") or []
    )


def _meets(requirement: Object, labels: Mapping[str, str]) -> bool:
    key, values = requirement["key"], requirement.get("values") or []
    return {
        "In": labels.get(key) in values,
        "NotIn": labels.get(key) not in values,
        "Exists": key in labels,
        "DoesNotExist": key not in labels,
    }[requirement["operator"]]


def _has_port(ports: Sequence[Object] | None, target: Pod, port: int, protocol: str) -> bool:
    """A rule without ports is for all of them; a name is that of a port of the target."""
    return not ports or any(_is_port(each, target, port, protocol) for each in ports)


def _is_port(rule: Object, target: Pod, port: int, protocol: str) -> bool:
    if rule.get("protocol", "TCP") != protocol:
        return False
    wanted = rule.get("port")
    if wanted is None:
        return True
    if isinstance(wanted, str):
        return target.ports.get(wanted) == port
    return int(wanted) <= port <= int(rule.get("endPort", wanted))
