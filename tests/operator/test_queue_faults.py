"""The operator dies after a request about a job in a queue, on a real API server: the job ends as without that."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from railhead.local.control_plane import ControlPlane
from tests.api.server import ApiServer
from tests.kueue.client import Installation
from tests.kueue.workload import Object, holds_quota, is_true
from tests.operator.audit import AuditLog
from tests.operator.conftest import make_cluster
from tests.operator.faulty_cluster import FaultyCluster, run_behind_proxy
from tests.operator.proxy import KILL_AFTER, Trouble
from tests.operator.running import RunningOperator
from tests.operator.scenarios import JOB, ScenarioRun

KILL_STEP = 3


@pytest.fixture(scope="module")
def faulty_cluster(
    audited_plane: tuple[ControlPlane, AuditLog],
    installation: Installation,
    operator: RunningOperator,
    server: ApiServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[FaultyCluster]:
    plane, folder = audited_plane[0], tmp_path_factory.mktemp("proxied")
    with run_behind_proxy(plane, operator, folder, make_cluster, server=server, flags=["--kueue"]) as cluster:
        yield cluster


def is_held_and_admitted_again(installation: Installation, run: ScenarioRun) -> Iterator[None]:
    """An administrator's hold takes the quota of a job that trains, and gives it back; then the job succeeds."""
    kueue = installation.at(run.cluster.namespace)
    kueue.make_queue(gpus=0)
    run.cluster.apply(JOB, scheduling={"queueName": "team"})

    def until(what: Callable[[], bool]) -> Iterator[None]:
        return run.until(lambda: kueue.run_once() >= 0 and what())

    def find() -> Object:
        found = kueue.find(JOB)
        assert found is not None
        return found

    yield from until(lambda: run.is_up(1))
    yield from run.train(1)
    name = find()["metadata"]["name"]
    kueue.patch(name, active=False)
    yield from until(lambda: run.status.get("phase") == "Queued" and not holds_quota(find()))
    assert not run.pods
    kueue.patch(name, active=True)
    yield from until(lambda: run.is_up(2))
    yield from run.train(2)
    yield from run.succeed(2)
    yield from until(lambda: is_true(find(), "Finished"))


@pytest.mark.slow
def test_an_operator_killed_after_a_request_changes_nothing_for_a_queued_job(
    faulty_cluster: FaultyCluster, installation: Installation
) -> None:
    """One job at a time, so that only this kill affects it: every third request."""

    def scenario(run: ScenarioRun) -> Iterator[None]:
        return is_held_and_admitted_again(installation, run)

    [calm] = faulty_cluster.play(scenario, None)
    numbers = range(0, len(calm.ledger.asked), KILL_STEP)
    for number in numbers:
        [run] = faulty_cluster.play(scenario, Trouble(number, KILL_AFTER))
        faulty_cluster.compare(run, calm.summarize(), scenario)
    assert faulty_cluster.starts >= len(numbers) - 1, "the last requests may not be repeated"
