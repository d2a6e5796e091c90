"""Kubernetes quantities: as a user writes them, the rules for them at `kubectl apply`, and exactly as Decimal.

The rules catch wrong units.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import ROUND_CEILING, Decimal
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from railhead.api.model import rules

QUANTITY = r"^[0-9]+(\.[0-9]{1,6})?(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?$"
RESOURCE_NAME = r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"
NO_NEGATIVE = ("", "self.all(k, !string(self[k]).startsWith('-'))", "no amount may be negative")
MORE_THAN_NOTHING = (
    "",
    "self.all(k, string(self[k]).matches('[1-9]'))",
    "every amount must be greater than 0; remove a resource to use its default",
)
CPU = (
    "",
    "!('cpu' in self) || string(self['cpu']).matches('^[0-9]+([.][0-9]{1,3}|m)?$')",
    "cpu must be a number of CPUs such as 4, 0.5 or 500m",
)
MEMORY = (
    "",
    "!('memory' in self) || quantity(string(self['memory'])).compareTo(quantity('64Mi')) >= 0",
    "memory must be at least 64Mi; a number without a unit is in bytes",
)
COMPUTE_KEYS = (
    "",
    "self.all(k, k in ['cpu', 'memory', 'ephemeral-storage'])",
    "a key must be cpu, memory or ephemeral-storage; set other resources in scaling.resourcesPerWorker",
)
ANY_KEYS = (
    "",
    "self.all(k, k in ['cpu', 'memory', 'ephemeral-storage'] || k.contains('/'))",
    "a key must be cpu, memory, ephemeral-storage or an extended resource such as nvidia.com/gpu",
)
WHOLE_DEVICES = (
    "",
    "self.all(k, !k.contains('/') || string(self[k]).matches('^[0-9]+$'))",
    "the amount of an extended resource such as nvidia.com/gpu must be a whole number",
)
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
AMOUNT = re.compile(rf"([0-9]+(?:\.[0-9]+)?)({'|'.join(SUFFIXES)})", re.ASCII)


def _as_text(value: Any) -> Any:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    return value


Quantity = Annotated[
    str,
    Field(max_length=32, pattern=QUANTITY, json_schema_extra={"x-kubernetes-int-or-string": True}),
    BeforeValidator(_as_text),
]
ResourceName = Annotated[str, Field(min_length=1, max_length=128, pattern=RESOURCE_NAME)]


def at_least(amount: str, *, why: str) -> tuple[str, str, str]:
    """Returns a rule for one quantity. A bare number is in bytes, which is hardly ever intended."""
    return "", f"quantity(string(self)).compareTo(quantity('{amount}')) >= 0", f"must be at least {amount}: {why}"


def _check_devices(resources: dict[str, str]) -> dict[str, str]:
    """Judges objects stored under an older schema: pods and Ray's node resources need whole devices."""
    for name, amount in resources.items():
        if "/" in name and not amount.isdecimal():
            raise ValueError(f"{name}: {WHOLE_DEVICES[2]}")
    return resources


WorkerResources = Annotated[
    dict[ResourceName, Quantity],
    Field(max_length=16, json_schema_extra=rules(NO_NEGATIVE, MORE_THAN_NOTHING, CPU, MEMORY, ANY_KEYS, WHOLE_DEVICES)),
    AfterValidator(_check_devices),
]
HeadResources = Annotated[
    dict[ResourceName, Quantity],
    Field(max_length=16, json_schema_extra=rules(NO_NEGATIVE, MORE_THAN_NOTHING, CPU, MEMORY, COMPUTE_KEYS)),
]
AddedResources = Annotated[
    dict[ResourceName, Quantity],
    Field(max_length=16, json_schema_extra=rules(NO_NEGATIVE, CPU, COMPUTE_KEYS)),
]


def parse_quantity(text: str) -> Decimal:
    """Returns the value of a quantity. Raises ValueError for any other text."""
    match = AMOUNT.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a quantity")
    return Decimal(match[1]) * SUFFIXES[match[2]]


def format_cpu(value: Decimal) -> str:
    """Writes whole CPUs as a number, fractions in millis, rounded up."""
    millis = int((value * 1000).to_integral_value(rounding=ROUND_CEILING))
    if millis % 1000 == 0:
        return str(millis // 1000)
    return f"{millis}m"


def format_bytes(value: Decimal) -> str:
    """Writes bytes in the largest binary unit that divides them exactly."""
    count = int(value.to_integral_value(rounding=ROUND_CEILING))
    for suffix in ("Gi", "Mi", "Ki"):
        unit = int(SUFFIXES[suffix])
        if count and count % unit == 0:
            return f"{count // unit}{suffix}"
    return str(count)


def format_resource(name: str, value: Decimal) -> str:
    if name == "cpu":
        return format_cpu(value)
    if name in ("memory", "ephemeral-storage"):
        return format_bytes(value)
    return str(int(value.to_integral_value(rounding=ROUND_CEILING)))


def parse_resources(resources: Mapping[str, str] | None) -> dict[str, Decimal]:
    return {name: parse_quantity(text) for name, text in (resources or {}).items()}
