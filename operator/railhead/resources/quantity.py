"""Kubernetes quantities, exactly: text <-> Decimal."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import ROUND_CEILING, Decimal

SUFFIXES = {
    "m": Decimal("0.001"),
    "": Decimal(1),
    "k": Decimal(10) ** 3,
    "M": Decimal(10) ** 6,
    "G": Decimal(10) ** 9,
    "T": Decimal(10) ** 12,
    "P": Decimal(10) ** 15,
    "Ki": Decimal(2) ** 10,
    "Mi": Decimal(2) ** 20,
    "Gi": Decimal(2) ** 30,
    "Ti": Decimal(2) ** 40,
    "Pi": Decimal(2) ** 50,
}
QUANTITY = re.compile(rf"([0-9]+(?:\.[0-9]+)?)({'|'.join(SUFFIXES)})", re.ASCII)


def parse_quantity(text: str) -> Decimal:
    """The value of a quantity. Raises ValueError for any other text."""
    match = QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a quantity")
    return Decimal(match[1]) * SUFFIXES[match[2]]


def format_cpu(value: Decimal) -> str:
    """Whole CPUs as a number, fractions in millis, rounded up."""
    millis = int((value * 1000).to_integral_value(rounding=ROUND_CEILING))
    return str(millis // 1000) if millis % 1000 == 0 else f"{millis}m"


def format_bytes(value: Decimal) -> str:
    """Bytes in the largest binary unit that divides them exactly."""
    count = int(value.to_integral_value(rounding=ROUND_CEILING))
    for suffix in ("Gi", "Mi", "Ki"):
        unit = int(SUFFIXES[suffix])
        if count and count % unit == 0:
            return f"{count // unit}{suffix}"
    return str(count)


def format_count(value: Decimal) -> str:
    return str(int(value.to_integral_value(rounding=ROUND_CEILING)))


def format_resource(name: str, value: Decimal) -> str:
    if name == "cpu":
        return format_cpu(value)
    if name in ("memory", "ephemeral-storage"):
        return format_bytes(value)
    return format_count(value)


def parse_resources(resources: Mapping[str, str] | None) -> dict[str, Decimal]:
    return {name: parse_quantity(text) for name, text in (resources or {}).items()}
