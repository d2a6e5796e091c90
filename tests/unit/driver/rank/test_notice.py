"""Whether the function has read the preemption notice, however it calls Ray's public function."""

from __future__ import annotations

import pytest
from ray.train import get_preemption_info
from ray.train.v2._internal.execution import train_fn_utils
from ray.train.v2._internal.execution.train_fn_utils import DistributedTrainFnUtils, TrainFnUtils

from railhead.driver.rank import notice
from railhead.driver.ray.context import NOTICE


@pytest.fixture(autouse=True)
def ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notice, "NOTICES", notice.Notices())
    monkeypatch.setattr(train_fn_utils, "_train_fn_utils", DistributedTrainFnUtils())


def test_contract_rays_function_calls_the_watched_method_and_the_first_notice_is_recorded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    notices: list[object] = [None, "leaving", None]
    monkeypatch.setattr(DistributedTrainFnUtils, NOTICE, lambda self: notices.pop(0))
    notice.watch_notices()
    notice.watch_notices()
    read = []
    for expected in (None, "leaving", None):
        assert get_preemption_info() == expected
        read.append(notice.NOTICES.was_read)
    assert read == [False, True, True]


def test_an_older_ray_has_nothing_to_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    for each in (DistributedTrainFnUtils, TrainFnUtils):
        monkeypatch.delattr(each, NOTICE)
    notice.watch_notices()
    assert not hasattr(DistributedTrainFnUtils, NOTICE)
