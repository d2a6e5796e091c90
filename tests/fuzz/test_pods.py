"""Mutated pods: none of them ends the operator, nor costs another job a pod."""

from __future__ import annotations

import json

import pytest

from railhead.api import names
from tests.fuzz.mutate import Mutator, Object
from tests.fuzz.pods import choose_state, end_pod, find_pod
from tests.fuzz.rig import NEIGHBOUR, OTHER_NAMESPACE, make_rig, no_errors
from tests.fuzz.seeds import find_seeds, replayed_by
from tests.model.world import NAMESPACE
from tests.tried import Tried


async def run(seed: int) -> None:
    rig, mutator = await make_rig(), Mutator(seed)
    random = mutator.random
    pod = choose_state(find_pod(rig, random.choice((names.HEAD, names.WORKER))), random)
    if random.random() < 0.3:  # somebody else's, who claims that the job owns it
        pod = {**pod, "metadata": {**pod["metadata"], "namespace": OTHER_NAMESPACE}}
    if random.random() < 0.2:
        pod = json.loads(json.dumps(pod).replace('"digits-', f'"{NEIGHBOUR}-'))
    if random.random() < 0.3:
        pod = {**pod, "metadata": {**pod["metadata"], "uid": "another"}}
    with no_errors():
        rig.deliver_pod(keep_identity(mutator.mutate(pod), pod))
        await rig.run()
    rig.check()


def keep_identity(mutated: Object, pod: Object) -> Object:
    """Every object has a name and a uid, or the API server would not have it."""
    old = {key: pod["metadata"][key] for key in ("name", "uid", "namespace")}
    metadata = mutated.get("metadata")
    return {**mutated, "metadata": {**(metadata if isinstance(metadata, dict) else {}), **old}}


@pytest.mark.parametrize("seeds", find_seeds())
async def test_a_mutated_pod_costs_no_other_job_anything(seeds: range, tried: Tried) -> None:
    for seed in seeds:
        with replayed_by(seed):
            await run(seed)
    tried("mutated pods", len(seeds))


async def test_a_pod_of_another_namespace_is_never_the_jobs() -> None:
    """Whoever may create pods anywhere may write any owner into them."""
    rig = await make_rig()
    head = find_pod(rig, names.HEAD)
    metadata = {**head["metadata"], "namespace": OTHER_NAMESPACE, "uid": "another"}
    outcome = json.dumps({"outcome": "Succeeded"})
    rig.deliver_pod({**head, "metadata": metadata, "status": end_pod(head, outcome, code=0)["status"]})
    await rig.run()
    assert not rig.writes
    assert rig.api.objects["trainjobs", NAMESPACE, "digits"] == rig.job
