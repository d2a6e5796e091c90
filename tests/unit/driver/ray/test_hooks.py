"""A Ray without one of the hooks, each in turn: the hook is named, and no training starts."""

from __future__ import annotations

import importlib
import pickle
import re
from typing import Any

import pytest

import ray
from railhead.contract.failure import FailureClass
from railhead.driver.container.packages import parse_version
from railhead.driver.messages.attempt_errors import JobRefused
from railhead.driver.ray import hooks, supported_versions
from railhead.driver.ray.hooks import ELASTIC, LARGE, NONE, OPTIONAL, REQUIRED, Hook, check_hooks


def remove(hook: Hook, monkeypatch: pytest.MonkeyPatch) -> None:
    for each in (*REQUIRED, *ELASTIC, *LARGE, *OPTIONAL):
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
    if last in getattr(owner, "__dataclass_fields__", ()):  # set by __init__ too
        monkeypatch.setattr(owner, "__init__", lambda self: None)
    if last in getattr(owner, "__members__", ()):
        monkeypatch.setattr(importlib.import_module(hook.module), parents[-1], object())


def test_the_installed_ray_has_all_hooks(capsys: pytest.CaptureFixture[str]) -> None:
    check_hooks(is_elastic=True, is_large=True)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("hook", [*REQUIRED, *ELASTIC, *LARGE, *OPTIONAL], ids=str)
def test_each_row_names_what_of_ray_would_make_it_superfluous(hook: Hook) -> None:
    entries = hook.upstream.split("; ")
    assert entries == [NONE] or all(re.fullmatch(r"ray-project/ray#\d+: \S.*", each) for each in entries)


@pytest.mark.parametrize("hook", [*REQUIRED, *ELASTIC, *LARGE], ids=str)
def test_a_missing_required_hook_fails_the_job_and_is_named(hook: Hook, monkeypatch: pytest.MonkeyPatch) -> None:
    remove(hook, monkeypatch)
    with pytest.raises(JobRefused) as caught:
        check_hooks(is_elastic=True, is_large=True)
    failure = pickle.loads(pickle.dumps(caught.value)).failure
    assert (failure.class_, failure.reason) == (FailureClass.CONFIGURATION, "RayTrainNotUsable")
    assert str(hook) in failure.message and f"Ray {ray.__version__}" in failure.message
    assert failure.class_.policy.final, "no second attempt"


def test_names_all_missing_hooks_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    first, *_, last = REQUIRED
    remove(first, monkeypatch)
    remove(last, monkeypatch)
    with pytest.raises(JobRefused) as caught:
        check_hooks()
    assert str(first) in caught.value.failure.message and str(last) in caught.value.failure.message


def test_a_fixed_group_of_few_ranks_needs_no_scaling_policy_and_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    for hook in (*ELASTIC, LARGE[-1]):
        remove(hook, monkeypatch)
    check_hooks()


@pytest.mark.parametrize("hook", OPTIONAL, ids=str)
def test_logs_the_effect_of_a_missing_optional_hook(
    hook: Hook, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    remove(hook, monkeypatch)
    check_hooks(is_elastic=True)
    assert f"Ray {ray.__version__} has no {hook}: {hook.without}" in capsys.readouterr().out
    if hook.since > (0, 0):
        monkeypatch.setattr(hooks, "find_version", lambda: "2.52.1")
        check_hooks(is_elastic=True)
        assert capsys.readouterr().out == "", "an older Ray never had the hook"


@pytest.mark.parametrize(
    ("version", "warns"), [("2.52.1", False), ("2.60.9", False), ("2.61.0", True), ("main", False)]
)
def test_warns_of_a_newer_ray_than_tested(version: str, warns: bool) -> None:
    warning = supported_versions.warn_of_newer_ray(version)
    assert (warning is not None) is warns
    assert warning is None or (warning.reason == "RayNewerThanTested" and f"Ray {version}" in warning.message)


def test_the_newest_tested_ray_is_the_installed_one() -> None:
    assert parse_version(ray.__version__) == supported_versions.TESTED
