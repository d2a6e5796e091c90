"""Random schedules under one and two operators.

`RAILHEAD_SEED=n` plays one of them again, `RAILHEAD_SCHEDULES=n` plays so many.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import Counter

import pytest

from tests.model.schedule import Schedule

SCHEDULES = int(os.environ.get("RAILHEAD_SCHEDULES", "120"))


def seeds() -> list[int]:
    only = os.environ.get("RAILHEAD_SEED")
    return [int(only)] if only else list(range(SCHEDULES))


@pytest.mark.parametrize("operators", [1, 2])
def test_every_schedule_comes_to_its_documented_end(operators: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    done: Counter[str] = Counter()
    for seed in seeds():
        schedule = Schedule(seed, operators)
        try:
            asyncio.run(schedule.run())
        except AssertionError as error:
            raise AssertionError(f"play it again with RAILHEAD_SEED={seed}: {error}") from error
        done += schedule.done
    print(
        f"\n{len(seeds())} schedules with {operators} operators: "
        + ", ".join(f"{count} x {what}" for what, count in done.most_common())
    )
