"""spec.metrics: where a job shows its own metrics."""

from __future__ import annotations

from pydantic import Field

from railhead.api.model import Model, checked

# Of Ray's worker processes by default, and of the heads' GCS (`names.head_port`).
OF_RAY = (10_000, 29_999)


class Metrics(Model):
    """Where Prometheus reads a job's own metrics."""

    model_config = checked(
        (
            ".port",
            f"self.port < {OF_RAY[0]} || self.port > {OF_RAY[1]}",
            f"ports {OF_RAY[0]}-{OF_RAY[1]} are Ray's; choose another one, such as 9400",
        )
    )
    port: int = Field(
        ge=1024,
        le=65_535,
        description="The head pod serves /metrics in Prometheus' text format on this port, by plain HTTP without "
        "authentication; its container names the port metrics. The job's NetworkPolicy opens it to the peers of the "
        "chart's jobNetworkPolicy.metricsFrom only. Without spec.metrics no port is open.",
    )
