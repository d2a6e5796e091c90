"""Quantities are exact: a formatted number parses to the same number, and invalid text is rejected."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railhead.api.quantities import SUFFIXES, format_bytes, format_cpu, format_resource, parse_quantity

millis = st.integers(0, 10**9).map(lambda n: Decimal(n) / 1000)
sizes = st.one_of(
    st.integers(0, 2**55), st.builds(lambda n, p: n * 2**p, st.integers(1, 1023), st.sampled_from([10, 20, 30, 40]))
).map(Decimal)
amounts = st.decimals(min_value=0, max_value=10**12, places=6)


@given(millis)
def test_cpus_round_trip(value: Decimal) -> None:
    assert parse_quantity(format_cpu(value)) == value


@given(sizes)
def test_bytes_round_trip(value: Decimal) -> None:
    assert parse_quantity(format_bytes(value)) == value


@given(st.sampled_from(["cpu", "memory", "ephemeral-storage", "nvidia.com/gpu"]), amounts)
def test_rounds_up_by_less_than_a_unit(name: str, value: Decimal) -> None:
    unit = Decimal("0.001") if name == "cpu" else Decimal(1)
    assert 0 <= parse_quantity(format_resource(name, value)) - value < unit


@given(st.integers(0, 10**6), st.sampled_from(sorted(SUFFIXES)))
def test_a_suffix_multiplies(number: int, suffix: str) -> None:
    assert parse_quantity(f"{number}{suffix}") == number * SUFFIXES[suffix]


@pytest.mark.parametrize(
    ("text", "number"),
    [("500m", "0.5"), ("1.5Gi", "1610612736"), ("2k", "2000"), ("0.25", "0.25"), ("1Ti", str(2**40)), ("007", "7")],
)
def test_parses_quantities_of_kubernetes(text: str, number: str) -> None:
    assert parse_quantity(text) == Decimal(number)


@pytest.mark.parametrize(("value", "text"), [("2", "2"), ("0.5", "500m"), ("1.0001", "1001m"), ("0", "0")])
def test_formats_cpus_as_integers_or_millis(value: str, text: str) -> None:
    assert format_cpu(Decimal(value)) == text


@pytest.mark.parametrize(
    ("count", "text"), [(2**30, "1Gi"), (1536 * 2**20, "1536Mi"), (1024, "1Ki"), (1000, "1000"), (0, "0")]
)
def test_formats_bytes_in_the_largest_exact_unit(count: int, text: str) -> None:
    assert format_bytes(Decimal(count)) == text


@pytest.mark.parametrize("text", ["", "Gi", "-1", "+1", "1 Gi", "1GiB", "1gi", "1e3", ".5", "1.", "NaN", "1\n", "٣"])
def test_rejects_invalid_quantities(text: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        parse_quantity(text)
