"""JSON Patches: the tests come first, and a field can be removed whether or not it exists."""

from __future__ import annotations

import pytest

from railhead.kube.patch import build_patch
from tests.model.patches import Object, apply_operations

RUNNING: Object = {"metadata": {"uid": "u"}, "status": {"phase": "Running"}}


def test_the_tests_come_first() -> None:
    assert build_patch({"/metadata/uid": "u"}, {"phase": "Failed"}, under="/status") == [
        {"op": "test", "path": "/metadata/uid", "value": "u"},
        {"op": "add", "path": "/status/phase", "value": "Failed"},
    ]


@pytest.mark.parametrize("known", [{}, {"failure": {"class": "Hang"}}], ids=["no such field", "a field"])
def test_a_field_without_a_value_is_removed_whether_or_not_it_exists(known: Object) -> None:
    patch = build_patch({}, {"failure": None}, under="/status")
    assert apply_operations({**RUNNING, "status": {**RUNNING["status"], **known}}, patch) == RUNNING
