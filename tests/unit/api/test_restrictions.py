"""What jobs may use: the verdict on each job, and the defaults of the lists."""

from __future__ import annotations

import pytest

from railhead.api.admission_policy import SCOPES
from railhead.api.job import parse_spec
from railhead.api.restrictions import (
    ACCOUNT_RULES,
    FIELDS,
    RULES,
    TEMPLATES,
    UNRESTRICTED,
    Restrictions,
    find_refusals,
    make_restrictions,
)
from railhead.api.schema import build_schema
from railhead.api.spec import TrainJobSpec
from tests.api.restricted_jobs import ANYTHING_NAMED, CASES, NAMING, ONLY_TRAINER, RESTRICTED, STRICTEST, Case
from tests.api.trainjobs import make_job


def judge(case: Case, restrictions: Restrictions) -> tuple[str, ...]:
    return find_refusals(parse_spec(make_job(case.changes)["spec"]), restrictions)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_restricted_operator_refuses_a_job_naming_the_field(case: Case) -> None:
    refusals = judge(case, RESTRICTED)
    assert [r.startswith(case.refused) for r in refusals] == ([True] if case.refused else []), refusals
    assert judge(case, UNRESTRICTED) == ()


@pytest.mark.parametrize("case", NAMING, ids=str)
def test_without_default_each_pod_has_to_name_a_service_account(case: Case) -> None:
    refusals = judge(case, ONLY_TRAINER)
    assert [r.startswith(case.refused) for r in refusals] == ([True] if case.refused else []), refusals
    assert all(r.endswith(": [trainer]") for r in refusals)


def test_nothing_is_allowed_that_is_not_named() -> None:
    assert Restrictions(True, ("default",), (), ()) == STRICTEST
    case = Case(
        {
            "spec.envFrom": [{"secretRef": {"name": "keys"}}],
            "spec.run.storageVolume.persistentVolumeClaim.claimName": "runs",
            "spec.head.podTemplate.spec.serviceAccountName": "trainer",
        }
    )
    assert judge(case, STRICTEST) == (
        "spec.head.podTemplate.spec.serviceAccountName: is none of the service accounts that jobs may use: [default]",
        "spec.envFrom[].secretRef.name: is none of the Secrets that jobs may use: []",
        "spec.run.storageVolume.persistentVolumeClaim.claimName: is none of the PersistentVolumeClaims that jobs may "
        "use: []",
    )
    assert judge(case, ANYTHING_NAMED) == ()


def test_names_without_effect_are_an_error() -> None:
    for secrets, claims in (["a"], []), ([], ["a"]):
        with pytest.raises(ValueError, match="need --restrict-pod-template"):
            make_restrictions(is_restricted=False, service_accounts=[], secrets=secrets, claims=claims)
    assert make_restrictions(is_restricted=False, service_accounts=[], secrets=[], claims=[]) == UNRESTRICTED


def test_each_rule_reads_a_field_that_an_update_is_checked_for() -> None:
    known = build_schema(TrainJobSpec)["properties"]
    assert {path[0] for path in TEMPLATES} <= set(FIELDS) <= set(known)
    assert {rule.path.split(".")[0].removesuffix("[]") for rule in RULES if rule.scope == "job"} <= set(FIELDS)


def test_both_checks_list_refusals_in_the_same_order() -> None:
    order = [SCOPES.index(rule.scope) for rule in RULES[len(ACCOUNT_RULES) :]]
    assert order == sorted(order)
