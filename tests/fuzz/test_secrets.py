"""What is secret in a job goes into its own children, and nowhere else: no status, Event, log or metric has it."""

from __future__ import annotations

import gzip
import logging
import random
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from railhead.api.status import parse_status
from railhead.contract.history_format import read_line, write_line
from railhead.controller.operator_metrics import OperatorMetrics
from railhead.driver.archive.spool import Spool
from railhead.driver.storage.history_records import build_metrics
from tests.fuzz.mutate import Mutator
from tests.fuzz.rig import make_rig
from tests.fuzz.secrets import MARK, METADATA, SPEC, Pages, find_secrets
from tests.fuzz.seeds import find_seeds, replayed_by
from tests.model.api_server import JOBS, ModelApiServer
from tests.model.play import play
from tests.model.scenarios import SCENARIOS
from tests.tried import Tried

CHILDREN = ("pods", "configmaps", "secrets")


@pytest.fixture
def pages() -> Iterator[Pages]:
    """What the operator logs with --log-level DEBUG."""
    pages, logger = Pages(), logging.getLogger()
    level = logger.level
    logger.setLevel(logging.DEBUG)
    logger.addHandler(pages)
    yield pages
    logger.removeHandler(pages)
    logger.setLevel(level)


def check(api: ModelApiServer, pages: Pages) -> None:
    secrets = [entry.object for entry in api.log if entry.plural == "secrets"]
    tokens = {b64decode(text).decode() for secret in secrets for text in secret["data"].values()}
    statuses = [entry.object["status"] for entry in api.log if entry.plural == JOBS]
    others = [entry.object for entry in api.log if entry.plural not in (JOBS, *CHILDREN)]
    assert not find_secrets([*statuses, *others, pages.text, count(statuses)], MARK, *tokens)


def count(statuses: list[dict[str, object]]) -> str:
    """/metrics after these changes."""
    metrics = OperatorMetrics()
    parsed = [parse_status(each) for each in statuses]
    for old, new in pairwise(parsed):
        metrics.count_change("team", old, new)
    return metrics.begin_render()().decode()


@pytest.mark.parametrize("name", [each.name for each in SCENARIOS if not each.spec.keys() & SPEC.keys()])
async def test_no_secret_leaves_the_job_in_its_life(name: str, pages: Pages) -> None:
    scenario = next(each for each in SCENARIOS if each.name == name)
    world = await play(replace(scenario, spec={**SPEC, **scenario.spec}))
    check(world.api, pages)
    created = [entry.object for entry in world.api.log if entry.plural in CHILDREN]
    assert find_secrets(created, MARK), "the children have them"


async def run(seed: int, pages: Pages) -> None:
    rig, mutator = await make_rig(), Mutator(seed)
    pages.text = ""
    metadata = {**rig.job["metadata"], **METADATA}
    rig.renew_job({**rig.job, "spec": mutator.mutate({"spec": SPEC}).get("spec"), "metadata": metadata})
    await rig.run()
    check(rig.api, pages)


@pytest.mark.parametrize("seeds", find_seeds())
async def test_no_secret_leaves_a_mutated_job(seeds: range, pages: Pages, tried: Tried) -> None:
    for seed in seeds:
        with replayed_by(seed):
            await run(seed, pages)
    tried("mutated jobs with marked secrets", len(seeds))


VALUE = f"{MARK}-of-a-variable"
REPORT = {
    "loss": 0.5,
    "note": f"token {VALUE}",
    f"name of {VALUE}": [{"url": f"https://user:{VALUE}@host/x"}, VALUE],
    "deep": {"query": f"https://host/c?sv=1&sig={VALUE}&se=2", VALUE: {VALUE: f"{VALUE}\n{VALUE}"}},
}


@pytest.mark.parametrize("seeds", find_seeds())
def test_no_secret_is_kept_of_a_mutated_report(seeds: range, tried: Tried, monkeypatch: pytest.MonkeyPatch) -> None:
    """A report as the history of a run keeps it; a secret that a change has cut is none any more."""
    monkeypatch.setenv("TRACKER_TOKEN", VALUE)
    for seed in seeds:
        with replayed_by(seed):
            line = write_line({"time": "t", "attempt": 1, **build_metrics(Mutator(seed).mutate(REPORT))})
            assert VALUE.encode() not in line and len(line) <= 64 << 10
            assert read_line(line) is not None
    tried("mutated reports with marked secrets", len(seeds))


def print_with_secret(chance: random.Random, secret: str) -> Iterator[str]:
    """Yields lines as programs print them, some with the secret: alone, in a URL, a header, a traceback, twice."""
    shapes = ("{}", "x{}x{}", "https://me:{}@host/a?b=1", "Authorization: Bearer {}", "KEY='{}'", "\x1b[1m{}\r\u2028{}")
    for _ in range(chance.randrange(1, 50)):
        noise = "".join(chance.choices("ab \t:/@?&='\"\udc80é\x00\r", k=chance.randrange(0, 200)))
        yield noise + (chance.choice(shapes).replace("{}", secret) if chance.random() < 0.5 else "") + noise


@pytest.mark.parametrize("seeds", find_seeds())
def test_no_secret_is_in_the_archive(
    seeds: range, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tried: Tried
) -> None:
    """Whatever a rank prints of its environment; multi-line values line by line, as programs print them."""
    for seed in seeds:
        with replayed_by(seed):
            chance = random.Random(seed)
            lines = [MARK + "".join(chance.choices("abcXYZ019+/=", k=20)) for _ in range(chance.randrange(1, 4))]
            monkeypatch.setenv("A_SECRET_KEY", "\n".join(lines))
            spool = Spool(tmp_path / str(seed), "r0-w0", limit=2**22)
            for line in print_with_secret(chance, chance.choice(lines)):
                spool.add("0", line)
            kept = [gzip.decompress((spool.folder / name).read_bytes()).decode() for name in spool.write_all()]
            assert kept and not find_secrets(kept, MARK)
    tried("archives with marked secrets", len(seeds))
