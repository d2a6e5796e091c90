"""spec.metricPolicy: what happens when the metrics that training reports look wrong."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from railhead.api.model import NAMED_LIST, Model, checked, optional
from railhead.contract.metric_rule import MetricRule as Rule

_NEEDS_METRIC = "['IsNaN', 'Above', 'Below', 'NotImproved']"
RuleName = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]


class MetricPolicyRule(Model):
    """One rule."""

    model_config = checked(
        (
            ".metric",
            f"has(self.metric) ? self.type != 'NoCheckpoint' : !(self.type in {_NEEDS_METRIC})",
            "IsNaN, Above, Below and NotImproved need a metric, and NoCheckpoint has none",
        ),
        (
            ".threshold",
            "has(self.threshold) ? !(self.type in ['IsNaN', 'NoCheckpoint']) : "
            "!(self.type in ['Above', 'Below', 'RateBelow'])",
            "Above, Below and RateBelow need a threshold, and IsNaN and NoCheckpoint have none",
        ),
        (
            ".threshold",
            "!has(self.threshold) || self.type == 'RateBelow' || !self.threshold.endsWith('%')",
            "only RateBelow takes a percentage; give a decimal number",
        ),
        (
            ".windowSeconds",
            "has(self.windowSeconds) || (self.type == 'NotImproved' ? has(self.consecutive) : "
            "!(self.type in ['RateBelow', 'NoCheckpoint']))",
            "RateBelow and NoCheckpoint need it, and NotImproved needs windowSeconds or consecutive",
        ),
        (
            ".consecutive",
            "!has(self.consecutive) || self.type != 'NoCheckpoint'",
            "NoCheckpoint has no reports to count; use windowSeconds",
        ),
        (
            ".mode",
            "has(self.mode) == (self.type == 'NotImproved')",
            "NotImproved needs a mode, min or max, and other types have none",
        ),
    )
    name: RuleName = Field(description="Name of the rule, which messages have.")
    type: Literal["IsNaN", "Above", "Below", "NotImproved", "RateBelow", "NoCheckpoint"] = Field(
        description="IsNaN, Above, Below: the metric is not a number, or beyond the threshold. NotImproved: it has not "
        "become better than its best value by more than the threshold. RateBelow: it grows by less than the threshold "
        "per second. NoCheckpoint: no checkpoint was committed for windowSeconds.",
    )
    metric: str | None = optional(
        "Name of a metric in rank 0's reports, a/b for a nested one. A report without it says nothing. "
        "RateBelow may omit it: then it watches the steps of torch's optimizers, or of railhead.training.progress.",
        min_length=1,
        max_length=128,
    )
    threshold: str | None = optional(
        "Decimal number. For RateBelow also a percentage such as 60%: of the median of the rates in the "
        "group's earlier windows, of which there must be 3. NotImproved: how much better counts. Default: 0.",
        max_length=32,
        pattern=r"^-?[0-9]+(\.[0-9]+)?(e[-+]?[0-9]{1,2})?%?$",
    )
    mode: Literal["min", "max"] | None = optional("For NotImproved: whether a low or a high value is better.")
    window_seconds: int | None = optional(
        "RateBelow: the rate is measured over windows of this length. NoCheckpoint: the time without a "
        "commit. Others: for how long the reports must have shown it, at least.",
        ge=1,
        le=604_800,
    )
    consecutive: int | None = optional(
        "How many reports with the metric, or windows of RateBelow, must show it in a row. Default: 1.", ge=1, le=10_000
    )
    action: Literal["Warn", "Fail", "Restart"] = Field(
        description="Warn: the condition MetricRuleFired is True while it lasts. Fail: the job fails. Restart: the "
        "worker group restarts from the last checkpoint, and backoffLimit counts it; if the rule fires again at the "
        "same step, the job fails.",
    )

    def to_contract(self) -> Rule:
        """Returns the rule as the driver knows it."""
        return Rule(
            self.name,
            self.type,
            self.action,
            metric=self.metric or "",
            threshold=self.threshold or "",
            window_seconds=self.window_seconds or 0,
            consecutive=self.consecutive or 1,
            mode=self.mode or "",
        )


class MetricPolicy(Model):
    """What follows when metrics look wrong. The driver looks at each report of all ranks."""

    rules: list[MetricPolicyRule] = Field(
        min_length=1,
        max_length=16,
        description="Rules, independent of each other. If several fire at once, the first one acts.",
        json_schema_extra=NAMED_LIST,
    )
