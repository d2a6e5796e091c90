"""The operator's rights, as a life of jobs used them: enough, and none that is not used."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from railhead.local.assets import find_assets
from railhead.local.install import NAMESPACE, load_documents
from tests.operator.audit import AuditLog, Request
from tests.operator.running import RunningOperator
from tests.operator.stage import Stage
from tests.operator.test_crowd import meet_stranger
from tests.operator.test_source import SOURCE, make_code
from tests.operator.test_writes import play
from tests.waiting import wait_until

# Asked for by admission (OwnerReferencesPermissionEnforcement) when a child names its owner, never by a request.
WITHOUT_REQUEST = {("update", "railhead.dev", "trainjobs/finalizers")}
NUMBERS = itertools.count(1)
Right = tuple[str, str, str]


def granted() -> Iterator[Right]:
    for document in load_documents(find_assets("manifests/operator")):
        if document["kind"] in ("Role", "ClusterRole"):
            for rule in document["rules"]:
                yield from _expand(rule)


def _expand(rule: dict[str, Any]) -> Iterator[Right]:
    for group in rule["apiGroups"]:
        for resource in rule["resources"]:
            for verb in rule["verbs"]:
                yield verb, group, resource


def right_of(request: Request) -> Right:
    return request.verb, request.group, request.resource


def test_every_right_is_used_and_none_is_missing(
    stage: Stage, other_stage: Stage, second_operator: RunningOperator, audit: AuditLog
) -> None:
    """A life with code in a ConfigMap, two operators' doings to each other, a stranger's pod, a new certificate."""
    make_code(stage, **{"steps.py": ""})
    play(stage, "rights", source=SOURCE)
    wait_until("a lost compare", lambda: lose_compare(stage, audit))
    second_operator.stop()
    meet_stranger(other_stage)
    stage.operator.stop()
    stage.operator.start(report_url="https://reports.example:8443")
    stage.operator.stop()
    stage.operator.start()
    asked = audit.requests()
    assert not {right_of(r) for r in asked if r.code == 403}
    rights = set(granted())
    assert not any("*" in right for right in rights)
    assert rights - {right_of(r) for r in asked} == WITHOUT_REQUEST


def lose_compare(stage: Stage, audit: AuditLog) -> bool:
    """One more job for both operators; has one of them been second?"""
    name = f"both-{next(NUMBERS)}"
    stage.apply(name)
    stage.wait_pods(name, 3)
    return any(right_of(r) == ("get", "railhead.dev", "trainjobs") for r in audit.requests())


def test_secrets_are_read_in_the_operators_own_namespace_only(stage: Stage, audit: AuditLog) -> None:
    play(stage, "secret")
    read = {r.namespace for r in audit.requests() if r.resource == "secrets" and r.verb != "create"}
    assert read <= {NAMESPACE}
