"""The rules of spec.metricPolicy, as the operator sends them to the driver with the answer to each report."""

from __future__ import annotations

from dataclasses import dataclass

IS_NAN = "IsNaN"
ABOVE = "Above"
BELOW = "Below"
NOT_IMPROVED = "NotImproved"
RATE_BELOW = "RateBelow"
NO_CHECKPOINT = "NoCheckpoint"
TYPES = (IS_NAN, ABOVE, BELOW, NOT_IMPROVED, RATE_BELOW, NO_CHECKPOINT)
WARN = "Warn"  # the other actions are `contract.failure.FAIL` and `RESTART`
METRIC_RULE = "MetricRule"  # reason of the failure or the warning
METRIC_MISSING = "MetricMissing"  # reason of a warning that no report has the metric of a rule
METRIC_NOT_FINITE = "MetricNotFinite"  # reason of a warning that a metric without a rule is NaN or infinite
WITHOUT_RULE = (METRIC_MISSING, METRIC_NOT_FINITE)  # no rule has fired


@dataclass(frozen=True)
class MetricRule:
    """One rule.

    Attributes:
        metric: name of a metric in rank 0's reports, `a/b` for a nested one; empty = the steps of the ranks.
        threshold: a decimal number, for RateBelow also a percentage; empty = none.
        window_seconds: 0 = none.
        consecutive: reports or windows in a row.
        mode: min or max, for NotImproved.
    """

    name: str
    type: str
    action: str
    metric: str = ""
    threshold: str = ""
    window_seconds: int = 0
    consecutive: int = 1
    mode: str = ""

    @property
    def path(self) -> str:
        return f"spec.metricPolicy.rules[{self.name}]"
