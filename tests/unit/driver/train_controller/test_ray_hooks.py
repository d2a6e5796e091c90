"""A Ray without one of the hooks, each in turn: named, and no training starts."""

from __future__ import annotations

import importlib
import pickle
from typing import Any

import pytest

import ray
from railhead.contract.failure import FailureClass
from railhead.driver.errors import JobRefused
from railhead.driver.node import ray_features
from railhead.driver.train_controller import ray_hooks
from railhead.driver.train_controller.ray_hooks import ELASTIC, OPTIONAL, REQUIRED, Hook, check_hooks


def remove(hook: Hook, monkeypatch: pytest.MonkeyPatch) -> None:
    for each in (*REQUIRED, *ELASTIC, *OPTIONAL):
        importlib.import_module(each.module)  # Ray's own modules need the name when they are imported
    owner: Any = importlib.import_module(hook.module)
    *parents, last = hook.name.split(".")
    for parent in parents:
        owner = getattr(owner, parent)
    if not hasattr(owner, "__mro__"):
        monkeypatch.delattr(owner, last)
        return
    if not hasattr(owner, last):  # set by __init__
        for kind in owner.__mro__[:-1]:
            monkeypatch.setattr(kind, "__init__", lambda self: None)
        return
    for kind in owner.__mro__:  # a base class may have it too, and an enum allows no removal
        if last in vars(kind) and kind is not object and last not in getattr(kind, "__members__", ()):
            monkeypatch.delattr(kind, last)
    if last in getattr(owner, "__members__", ()):
        monkeypatch.setattr(importlib.import_module(hook.module), parents[-1], object())


def test_this_ray_has_all_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    check_hooks(is_elastic=True)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("hook", [*REQUIRED, *ELASTIC], ids=str)
def test_a_ray_without_a_required_hook_ends_the_job_with_its_name(hook: Hook, monkeypatch: pytest.MonkeyPatch) -> None:
    remove(hook, monkeypatch)
    with pytest.raises(JobRefused) as caught:
        check_hooks(is_elastic=True)
    failure = pickle.loads(pickle.dumps(caught.value)).failure
    assert (failure.class_, failure.reason) == (FailureClass.CONFIGURATION, "RayTrainNotUsable")
    assert str(hook) in failure.message and f"Ray {ray.__version__}" in failure.message
    assert failure.class_.policy.final, "no second attempt"


def test_all_missing_hooks_are_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    first, *_, last = REQUIRED
    remove(first, monkeypatch)
    remove(last, monkeypatch)
    with pytest.raises(JobRefused) as caught:
        check_hooks()
    assert str(first) in caught.value.failure.message and str(last) in caught.value.failure.message


def test_a_fixed_group_needs_no_scaling_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    for hook in ELASTIC:
        remove(hook, monkeypatch)
    check_hooks()


@pytest.mark.parametrize("hook", OPTIONAL, ids=str)
def test_a_ray_without_an_optional_hook_says_what_follows(
    hook: Hook, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    remove(hook, monkeypatch)
    check_hooks(is_elastic=True)
    assert f"Ray {ray.__version__} has no {hook}: {hook.without}" in capsys.readouterr().out
    if hook.since > (0, 0):
        monkeypatch.setattr(ray_hooks, "find_version", lambda: "2.52.1")
        check_hooks(is_elastic=True)
        assert capsys.readouterr().out == "", "a Ray that never had it is nothing to report"


@pytest.mark.parametrize(
    ("version", "warns"), [("2.52.1", False), ("2.60.9", False), ("2.61.0", True), ("main", False)]
)
def test_a_newer_ray_than_tested_is_a_warning(version: str, warns: bool) -> None:
    warning = ray_features.warn_of_newer_ray(version)
    assert (warning is not None) is warns
    assert warning is None or (warning.reason == "RayNewerThanTested" and f"Ray {version}" in warning.message)


def test_the_newest_tested_ray_is_this_one() -> None:
    assert ray_features.parse_version(ray.__version__) == ray_features.TESTED
