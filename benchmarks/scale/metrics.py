"""Reads Prometheus metrics in the text format: the API server's, and those of the operator under test. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

REQUESTS = "apiserver_request_total"
WRITES = ("POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION")
# What a replica that does nothing writes, too: its Lease, and the API server's own objects.
BY_THE_WAY = ("leases", "flowschemas", "prioritylevelconfigurations", "tokenreviews", "subjectaccessreviews")


def read_samples(text: str, name: str) -> Iterator[Sample]:
    """The samples of one series, with any labels. Only its lines are parsed: the API server has 20,000."""
    lines = "\n".join(line for line in text.splitlines() if line.startswith((f"{name}{{", f"{name} ")))
    for family in text_string_to_metric_families(lines):
        yield from family.samples


def sum_samples(text: str, name: str) -> float:
    return sum(sample.value for sample in read_samples(text, name))


def count_requests(text: str) -> Counter[str]:
    """Requests that the API server has answered: `POST pods` and the like."""
    counted: Counter[str] = Counter()
    for sample in read_samples(text, REQUESTS):
        resource = sample.labels.get("resource")
        if resource:
            where = "/".join(part for part in (resource, sample.labels.get("subresource", "")) if part)
            counted[f"{sample.labels['verb']} {where}"] += int(sample.value)
    return counted


def select_writes(requests: Counter[str]) -> Counter[str]:
    """Those that write, without what is written when there is nothing to do."""
    found: Counter[str] = Counter()
    for what, number in requests.items():
        verb, resource = what.split(" ")
        if verb in WRITES and resource.partition("/")[0] not in BY_THE_WAY and number:
            found[what] = number
    return found


def read_buckets(text: str, name: str) -> Counter[float]:
    """A histogram's cumulative counts by their upper bounds, over all labels."""
    counted: Counter[float] = Counter()
    for sample in read_samples(text, f"{name}_bucket"):
        counted[float(sample.labels["le"])] += int(sample.value)
    return counted


def estimate_quantile(buckets: Counter[float], share: float) -> float | None:
    """As Prometheus's histogram_quantile: linear within a bucket. None without observations."""
    bounds = sorted(buckets)
    total = buckets[bounds[-1]] if bounds else 0
    if not total:
        return None
    rank, below, lower = share * total, 0, 0.0
    for bound in bounds:
        if buckets[bound] >= rank and buckets[bound] > below:
            if math.isinf(bound):
                return lower
            return lower + (bound - lower) * (rank - below) / (buckets[bound] - below)
        below, lower = buckets[bound], bound
    return lower
