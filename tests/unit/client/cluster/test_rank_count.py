"""How many ranks a job may have."""

from __future__ import annotations

import pytest

from railhead.client.cluster.rank_count import count_ranks
from railhead.json_object import Object


@pytest.mark.parametrize(
    ("scaling", "expected"),
    [({}, (1, 1)), ({"numWorkers": 3}, (3, 3)), ({"minWorkers": 2, "maxWorkers": 8, "desiredWorkers": 4}, (2, 8))],
)
def test_an_elastic_job_has_a_range_and_another_one_number(scaling: Object, expected: tuple[int, int]) -> None:
    assert count_ranks({"spec": {"scaling": scaling}}) == expected
