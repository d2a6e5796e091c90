"""An operator behind a faulty proxy, the scenarios that run under it, and the results they must share."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from railhead.local.control_plane import ControlPlane
from tests.api.server import ApiServer
from tests.operator.cluster import Cluster, Object
from tests.operator.proxy import Fault, FaultyProxy, Trouble
from tests.operator.running import RunningOperator
from tests.operator.scenarios import Scenario, ScenarioRun, play

BATCH = 40


@dataclass
class FaultyCluster:
    """An operator that reaches the API server only through a proxy, and is restarted when it exits."""

    server: ApiServer
    operator: RunningOperator
    proxy: FaultyProxy
    make_cluster: Callable[[ApiServer, RunningOperator], Cluster]
    starts: int = 0
    tried: Counter[str] = field(default_factory=Counter)

    def keep_operator(self) -> None:
        if self.operator.has_ended:
            self.operator.start()
            self.starts += 1

    def make_run(self, trouble: Trouble | None = None) -> ScenarioRun:
        cluster = self.make_cluster(self.server, self.operator)
        ledger = self.proxy.ledger(cluster.namespace)
        ledger.asked.clear()  # of the namespace's creation, not the operator's
        ledger.trouble = trouble
        return ScenarioRun(cluster, ledger)

    def play(self, scenario: Scenario, *troubles: Trouble | None) -> list[ScenarioRun]:
        """The same scenario once for each trouble, all at the same time."""
        return self.play_all([(self.make_run(trouble), scenario) for trouble in troubles])

    def play_all(
        self,
        runs: list[tuple[ScenarioRun, Scenario]],
        *,
        trouble: Callable[[], None] = lambda: None,
        seconds: float = 300.0,
    ) -> list[ScenarioRun]:
        """`trouble` may do something to everybody, again and again."""

        def each_round() -> None:
            self.keep_operator()
            trouble()

        play(runs, each_round=each_round, seconds=seconds)
        for run, _ in runs:
            assert not run.violations, run.violations
        return [run for run, _ in runs]

    def try_all(self, scenario: Scenario, *faults: Fault, in_turn: Sequence[Fault] = ()) -> None:
        """Tries each of the faults, and one of `in_turn`, at each request of this scenario, one fault in each job."""
        [calm] = self.play(scenario, None)
        wanted, requests = calm.summarize(), len(calm.ledger.asked)
        assert requests > 10, calm.ledger.asked
        at_each: list[Sequence[Fault]] = [(*faults, fault) for fault in in_turn] or [faults]
        numbers = range(requests)
        troubles = [Trouble(number, fault) for number in numbers for fault in at_each[number % len(at_each)]]
        for first in range(0, len(troubles), BATCH):
            for run in self.play(scenario, *troubles[first : first + BATCH]):
                self.compare(run, wanted, scenario)

    def compare(self, run: ScenarioRun, wanted: Object, scenario: Scenario) -> None:
        trouble = run.ledger.trouble
        assert run.summarize() == wanted, f"{scenario.__name__}: {trouble}\n{run.ledger.asked}"
        if trouble is not None and trouble.done:
            self.tried[str(trouble.fault)] += 1


@contextmanager
def run_behind_proxy(
    plane: ControlPlane,
    other: RunningOperator,
    folder: Path,
    make_cluster: Callable[[ApiServer, RunningOperator], Cluster],
    *,
    server: ApiServer,
    flags: list[str],
) -> Iterator[FaultyCluster]:
    """Runs an operator with the rights of the other one, which rests meanwhile."""
    other.rest()
    with FaultyProxy(plane) as proxy:
        kubeconfig = folder / "operator.kubeconfig"
        kubeconfig.write_text(other.kubeconfig.read_text().replace(plane.server, proxy.url))
        proxied = RunningOperator(kubeconfig, folder, flags=flags)
        proxy.kill = lambda: proxied.signal(signal.SIGKILL)
        proxied.start()
        try:
            yield FaultyCluster(server, proxied, proxy, make_cluster)
        finally:
            proxied.stop()
