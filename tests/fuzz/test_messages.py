"""Mutated termination messages: a pod may write anything there."""

from __future__ import annotations

import json

import pytest

from railhead.api import names
from tests.fuzz.mutate import Mutator
from tests.fuzz.pods import OUTCOME, end_pod, find_pod
from tests.fuzz.rig import make_rig, no_errors
from tests.fuzz.seeds import find_seeds, replayed_by
from tests.tried import Tried


async def run(seed: int) -> None:
    rig, mutator = await make_rig(), Mutator(seed)
    text = mutator.mutate_text(json.loads(OUTCOME.to_json()))[:4096].decode(errors="replace")  # as the kubelet does
    code = mutator.random.choice((0, 1, 64, 65, 66, 68, 70, 137, 255))
    role = mutator.random.choice((names.HEAD, names.HEAD, names.WORKER))
    with no_errors():
        rig.deliver_pod(end_pod(find_pod(rig, role), text, code=code))
        await rig.run()
    rig.check()


@pytest.mark.parametrize("seeds", find_seeds())
async def test_a_mutated_termination_message_ends_an_attempt_at_most(seeds: range, tried: Tried) -> None:
    for seed in seeds:
        with replayed_by(seed):
            await run(seed)
    tried("mutated termination messages", len(seeds))
