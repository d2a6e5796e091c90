"""Numbers of a TrainJob: their bounds, and the names of those that are none."""

from __future__ import annotations

import math

MAX_INT32 = 2**31 - 1  # the integers of the CRD are int32, as most of Kubernetes'


def name_not_finite(value: float) -> str:
    """Returns NaN, Infinity or -Infinity, as the status, the warnings and the plots name such a metric."""
    if math.isnan(value):
        return "NaN"
    if value > 0:
        return "Infinity"
    return "-Infinity"
