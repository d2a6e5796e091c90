"""The bounds of numbers in a TrainJob."""

from __future__ import annotations

MAX_INT32 = 2**31 - 1  # the integers of the CRD are int32, as most of Kubernetes'
