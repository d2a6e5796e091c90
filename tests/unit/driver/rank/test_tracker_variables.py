"""Which variables of a tracker a rank gets."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import pytest

from railhead.contract.trackers import RUN_ID
from railhead.driver.rank.tracker_variables import set_tracker_variables

RUN = "digits-1c6f0c8e"


def set_variables(given: Mapping[str, str] = MappingProxyType({}), *, rank: int = 0) -> dict[str, str]:
    """Returns what a rank of a job with these variables gets in addition or instead."""
    before = {RUN_ID: RUN, **given}
    after = dict(before)
    set_tracker_variables(after, rank)
    return dict(after.items() - before.items())


def test_rank_0_continues_the_run() -> None:
    assert set_variables() == {"WANDB_RUN_ID": RUN, "WANDB_RESUME": "allow", "WANDB_NAME": RUN}


def test_another_rank_never_writes_to_the_run_of_rank_0() -> None:
    own = f"{RUN}-rank3"
    assert set_variables(rank=3) == {"WANDB_RUN_ID": own, "WANDB_RESUME": "allow", "WANDB_NAME": own}


def test_a_name_of_the_jobs_own_stays() -> None:
    assert set_variables({"WANDB_NAME": "mine"}) == {"WANDB_RUN_ID": RUN, "WANDB_RESUME": "allow"}


def test_a_job_that_allows_resuming_gets_the_id() -> None:
    assert set_variables({"WANDB_RESUME": "allow"}) == {"WANDB_RUN_ID": RUN, "WANDB_NAME": RUN}


@pytest.mark.parametrize(
    "given",
    [
        {"WANDB_RUN_ID": "mine"},
        {"WANDB_RESUME": "never"},
        {"WANDB_RESUME": "must"},
        {"WANDB_SWEEP_ID": "s"},
        {RUN_ID: ""},
    ],
)
def test_a_job_with_an_identity_of_its_own_gets_nothing(given: dict[str, str]) -> None:
    assert set_variables(given) == {}


def test_outside_of_a_job_nothing_is_set() -> None:
    variables = {"PATH": "/bin"}
    set_tracker_variables(variables, 0)
    assert variables == {"PATH": "/bin"}
