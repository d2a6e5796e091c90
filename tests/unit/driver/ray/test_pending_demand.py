"""What Ray waits to start, as a hang's message names it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from railhead.driver.ray import pending_demand
from railhead.driver.ray.pending_demand import Demand, Resources, describe_demand, write_demand

GROUP = "0a1b2c"


def make_node(total: Resources, available: Resources | None = None) -> SimpleNamespace:
    return SimpleNamespace(total_resources=total, available_resources=total if available is None else available)


HEAD = make_node({"memory": 4e9})
WORKER = make_node({"CPU": 2.0, f"CPU_group_{GROUP}": 1.0, f"bundle_group_{GROUP}": 1000.0}, {"CPU": 0.0})


@pytest.mark.parametrize(
    ("demands", "expected"),
    [
        ([], ""),
        ([Demand(1, {"memory": 1e9})], ""),
        (
            [Demand(3, {"GPU": 1, "fpga": 2})],
            "Ray waits to start 3 tasks or actors that need 1 GPU, 2 fpga, which no pod has",
        ),
        ([Demand(1, {"CPU": 1})], "Ray waits to start 1 task or actor that needs 1 CPU, which no pod has free"),
        ([Demand(1, {"CPU": 3})], "Ray waits to start 1 task or actor that needs 3 CPU, which no pod has"),
        (
            [Demand(1, {f"CPU_group_{GROUP}": 1, f"bundle_group_{GROUP}": 0.001})],
            "Ray waits to start 1 task or actor that needs 1 CPU of a placement group, which no pod has free",
        ),
        (
            [Demand(1, {"memory": 5e9})],
            "Ray waits to start 1 task or actor that needs 5e+09 bytes of memory, which no pod has",
        ),
        (
            [Demand(1, {"CPU": 1}), *(Demand(1, {f"r{n}": 1}) for n in range(4))],
            "Ray waits to start 1 task or actor that needs 1 r0, which no pod has; 1 task or actor that needs 1 r1, "
            "which no pod has; 1 task or actor that needs 1 r2, which no pod has; and 2 more kinds",
        ),
    ],
)
def test_only_what_no_pod_can_start_is_named(demands: list[Demand], expected: str) -> None:
    assert write_demand(demands, [HEAD, WORKER]) == expected


def test_a_ray_that_does_not_answer_only_leaves_it_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise TimeoutError("the GCS has a pause")

    assert describe_demand() == "", "the driver has not joined Ray"
    monkeypatch.setattr("ray.is_initialized", lambda: True)
    monkeypatch.setattr(pending_demand, "_ask_gcs", refuse)
    assert describe_demand() == ""
