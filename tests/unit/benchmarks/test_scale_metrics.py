"""What `make bench-scale` reads from metrics."""

from __future__ import annotations

from collections import Counter

import pytest
from benchmarks.scale.metrics import count_requests, estimate_quantile, read_buckets, select_writes, sum_samples

TEXT = """\
# HELP apiserver_request_total Counter of apiserver requests.
# TYPE apiserver_request_total counter
apiserver_request_total{code="200",resource="pods",subresource="status",verb="PATCH"} 7
apiserver_request_total{code="409",resource="pods",subresource="status",verb="PATCH"} 1
apiserver_request_total{code="201",resource="pods",subresource="",verb="POST"} 4
apiserver_request_total{code="200",resource="",subresource="",verb="GET"} 9
apiserver_request_total_other{resource="pods",verb="POST"} 100
depth 3
depth{name="a"} 2
"""


def test_requests_are_counted_by_verb_and_resource() -> None:
    assert count_requests(TEXT) == {"PATCH pods/status": 8, "POST pods": 4}


def test_a_series_is_summed_over_its_labels() -> None:
    assert sum_samples(TEXT, "depth") == 5
    assert sum_samples(TEXT, "nothing") == 0


def test_reads_and_what_an_idle_replica_writes_are_no_writes() -> None:
    requests = Counter({"LIST pods": 3, "PUT leases": 9, "PATCH flowschemas/status": 1, "PATCH pods/status": 2})
    assert select_writes(requests) == {"PATCH pods/status": 2}


BUCKETS = """\
pass_bucket{result="done",le="0.1"} 6.0
pass_bucket{result="lost",le="0.1"} 2.0
pass_bucket{result="done",le="1.0"} 8.0
pass_bucket{result="lost",le="1.0"} 2.0
pass_bucket{result="done",le="+Inf"} 8.0
pass_bucket{result="lost",le="+Inf"} 2.0
"""


@pytest.mark.parametrize(("share", "seconds"), [(0.4, 0.05), (0.8, 0.1), (0.9, 0.55), (1.0, 1.0)])
def test_a_quantile_is_interpolated_within_its_bucket(share: float, seconds: float) -> None:
    assert estimate_quantile(read_buckets(BUCKETS, "pass"), share) == pytest.approx(seconds)


def test_a_quantile_beyond_the_last_bound_is_that_bound() -> None:
    buckets = read_buckets('pass_bucket{le="0.1"} 1\npass_bucket{le="+Inf"} 10\n', "pass")
    assert estimate_quantile(buckets, 0.99) == 0.1


def test_without_observations_there_is_no_quantile() -> None:
    assert estimate_quantile(read_buckets("", "pass"), 0.5) is None
