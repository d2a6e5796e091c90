"""Numbers of a TrainJob: their bounds, and the names of those that are none."""

from __future__ import annotations

import math

# The integers of the CRD are int32, as most of Kubernetes'.
MAX_INT32 = 2**31 - 1


def name_not_finite(value: float) -> str:
    """Returns NaN, Infinity or -Infinity, as the status, the warnings and the plots name such a metric."""
    if math.isnan(value):
        return "NaN"
    if value > 0:
        return "Infinity"
    return "-Infinity"
