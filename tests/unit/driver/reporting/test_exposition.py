"""Prometheus' text format, as Prometheus' own parser reads it."""

from __future__ import annotations

import math

import pytest
from prometheus_client.parser import text_string_to_metric_families

from railhead.driver.reporting.exposition import Metric, write_metrics


def read(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """The values by name and labels."""
    families = text_string_to_metric_families(text)
    return {(each.name, tuple(each.labels.items())): each.value for family in families for each in family.samples}


@pytest.mark.parametrize("value", [0.0, -1.0, 3.0, 0.1 + 0.2, 1e300, 2.0**53 + 2, math.inf, -math.inf])
def test_a_number_keeps_its_value(value: float) -> None:
    text = write_metrics([Metric("a_seconds", "gauge", "A.", (((), value),))])
    assert read(text) == {("a_seconds", ()): value}


def test_no_number_is_written_as_nan() -> None:
    [value] = read(write_metrics([Metric("a", "gauge", "A.", (((), math.nan),))])).values()
    assert math.isnan(value)


@pytest.mark.parametrize("value", ['a"b', "a\\b", "a\nb", 'a\\"} 1\n', "ü{}", ""])
def test_the_value_of_a_label_is_only_a_value(value: str) -> None:
    text = write_metrics([Metric("a_total", "counter", "A.", (((("name", value), ("x", "y")), 2),))])
    assert read(text) == {("a_total", (("name", value), ("x", "y"))): 2.0}
    assert len(text.splitlines()) == 3


def test_a_metric_without_a_series_is_absent() -> None:
    assert write_metrics([Metric("a", "gauge", "A.", ())]) == ""


def test_there_are_never_more_series_than_the_bound() -> None:
    many = tuple(((("rank", str(rank)),), float(rank)) for rank in range(7))
    metrics = [Metric("a", "gauge", "A.", many), Metric("b", "gauge", "B.", many), Metric("c", "gauge", "C.", many)]
    found = [name for name, _ in read(write_metrics(metrics, most=10))]
    assert found == ["a"] * 7 + ["b"] * 3
