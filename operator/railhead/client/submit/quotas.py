"""What the ResourceQuotas of a namespace leave, next to what the pods of a job request. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from decimal import Decimal

from railhead.api.quantities import format_resource, parse_quantity
from railhead.json_object import Object, part

_KINDS = ("cpu", "memory", "ephemeral-storage")  # a quota also writes these without "requests."


def sum_pods(pods: Sequence[Object]) -> dict[str, Decimal]:
    """Returns what the pods count against a quota, by its names, such as requests.cpu and pods."""
    total = {"pods": Decimal(len(pods))}
    for pod in pods:
        for container in part(pod, "spec").get("containers") or []:
            for group in ("requests", "limits"):
                for name, amount in part(part(container, "resources"), group).items():
                    # podTemplate may have a form such as 1e3.
                    with suppress(ValueError):
                        key = f"{group}.{name}"
                        value = parse_quantity(str(amount))
                        total[key] = total.get(key, Decimal(0)) + value
    return total | {name: total[f"requests.{name}"] for name in _KINDS if f"requests.{name}" in total}


def describe_quota(quota: Object, needs: dict[str, Decimal]) -> str:
    """Returns what is left of the amounts that the job needs, and which of them are too little."""
    left = ", ".join(_describe_rows(part(quota, "status"), needs))
    return f"{quota['metadata']['name']}: {left or 'limits nothing that the job requests'}"


def _describe_rows(status: Object, needs: dict[str, Decimal]) -> Iterator[str]:
    for key, amount in part(status, "hard").items():
        if needs.get(key):
            try:
                hard = parse_quantity(str(amount))
                used = parse_quantity(str(part(status, "used").get(key, "0")))
            except ValueError:
                continue
            left = max(hard - used, Decimal(0))
            resource = key.removeprefix("requests.").removeprefix("limits.")
            short = ""
            if left < needs[key]:
                short = f", but the job takes {format_resource(resource, needs[key])}"
            shown = f"{format_resource(resource, left)} of {format_resource(resource, hard)}"
            yield f"{key} {shown} left{short}"
