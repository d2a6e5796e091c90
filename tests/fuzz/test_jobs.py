"""Mutated specs and statuses: each has a plan for its own job only, even those that no API server would store."""

from __future__ import annotations

import pytest

from railhead.api.status import parse_status
from tests.api.test_crd_accepts import VALID
from tests.api.trainjobs import make_job
from tests.fuzz.mutate import Mutator
from tests.fuzz.rig import make_rig, no_errors
from tests.fuzz.seeds import find_seeds, replayed_by
from tests.model.api_server import JOBS
from tests.model.world import NAMESPACE
from tests.tried import Tried

KEPT = ("name", "namespace", "uid", "resourceVersion")  # the API server sets or checks them


async def run(seed: int) -> None:
    rig, mutator = await make_rig(), Mutator(seed)
    spec = make_job(mutator.random.choice(list(VALID.values())))["spec"]
    old = rig.job
    with no_errors():
        if seed % 2:
            rig.renew_job({**old, "spec": mutator.mutate({"spec": spec}).get("spec")})
        else:
            mutated = mutator.mutate({"spec": spec, "status": old["status"], "metadata": old["metadata"]})
            status, metadata = (mutated.get(key) for key in ("status", "metadata"))
            known = {key: old["metadata"][key] for key in KEPT}
            metadata = {**(metadata if isinstance(metadata, dict) else {}), **known}
            status = status if isinstance(status, dict) else old["status"]
            rig.change_job({**old, "spec": mutated.get("spec"), "status": status, "metadata": metadata})
        await rig.run()
    rig.check()


@pytest.mark.parametrize("seeds", find_seeds())
async def test_a_mutated_job_has_a_plan_for_itself_only(seeds: range, tried: Tried) -> None:
    for seed in seeds:
        with replayed_by(seed):
            await run(seed)
    tried("mutated jobs", len(seeds))


async def test_a_job_that_is_not_mutated_is_begun() -> None:
    """Otherwise the cases above would show nothing."""
    rig = await make_rig()
    rig.renew_job(rig.job)
    await rig.run()
    rig.check()
    assert {"patch/status", "create"} <= {request.verb for request in rig.writes}
    assert parse_status(rig.api.objects[JOBS, NAMESPACE, "digits"]["status"]).phase == "Pending"
