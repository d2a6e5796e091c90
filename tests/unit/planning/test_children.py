"""The one list of children: everything created is removed, and each kind's API path is known."""

from __future__ import annotations

from dataclasses import replace

from railhead.kube import kinds
from railhead.planning.children import CHILDREN, prerequisites, removals
from tests.unit.builders import make_job, make_spec

WITH_ALL = make_job(spec=make_spec(source={"configMap": {"name": "code"}}))
WITH_ALL = replace(WITH_ALL, settings=replace(WITH_ALL.settings, has_network_policies=True))


def test_the_path_of_each_kind_is_known() -> None:
    assert set(kinds.CHILDREN) == {"Pod", *(child.kind for child in CHILDREN)}


def test_everything_created_for_a_job_is_removed_with_it() -> None:
    bundle, *created = [(create.kind, create.name) for create in prerequisites(WITH_ALL, attempt=1)]
    assert created == [(remove.kind, remove.name) for remove in removals(WITH_ALL)]
    assert bundle == ("ConfigMap", WITH_ALL.settings.bundle_name), "it belongs to the namespace"


def test_a_child_is_created_and_removed_by_the_same_name() -> None:
    for child in CHILDREN:
        assert child.create(WITH_ALL).name == child.name(WITH_ALL.name, WITH_ALL.uid)
