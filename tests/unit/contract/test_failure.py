"""The table of failure classes is complete, and an unknown name is handled in one place."""

from __future__ import annotations

import json

import pytest

from railhead.contract.failure import POLICIES, FailureClass, Payer


def test_each_class_has_a_row_and_no_two_share_an_exit_code() -> None:
    assert set(POLICIES) == set(FailureClass)
    codes = [policy.exit_code for policy in POLICIES.values() if policy.exit_code is not None]
    assert len(set(codes)) == len(codes)
    assert all(64 <= code <= 113 for code in codes), "not used by shells, signals or Python"


@pytest.mark.parametrize("kind", FailureClass)
def test_a_class_is_found_by_name_and_by_exit_code(kind: FailureClass) -> None:
    assert FailureClass.parse(kind.value) is kind
    if kind.policy.exit_code is not None:
        assert FailureClass.of_exit_code(kind.exit_code) is kind


@pytest.mark.parametrize("name", ["", "Hardware2", "application", "Succeeded"])
def test_an_unknown_class_is_infrastructure(name: str) -> None:
    assert FailureClass.parse(name) is FailureClass.INFRASTRUCTURE


@pytest.mark.parametrize("code", [None, 0, 1, 63, 113, 137])
def test_other_exit_codes_have_no_class(code: int | None) -> None:
    assert FailureClass.of_exit_code(code) is None


def test_a_class_that_only_the_operator_assigns_has_no_exit_code() -> None:
    with pytest.raises(ValueError, match="Startup has no exit code"):
        _ = FailureClass.STARTUP.exit_code


def test_a_class_is_serialized_as_its_name() -> None:
    assert f"{FailureClass.OUT_OF_MEMORY}" == str(FailureClass.OUT_OF_MEMORY) == "OutOfMemory"
    assert json.dumps(FailureClass.OUT_OF_MEMORY) == '"OutOfMemory"'


def test_only_the_users_own_failures_spend_backoff_limit() -> None:
    paid = {kind for kind, policy in POLICIES.items() if policy.payer is Payer.APPLICATION}
    assert paid == {FailureClass.APPLICATION, FailureClass.OUT_OF_MEMORY}
