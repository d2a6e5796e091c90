"""An operator behind a faulty proxy, the lives that are lived under it, and what they must have in common."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.api.server import ApiServer
from tests.operator.lives import Life, Scene, play
from tests.operator.proxy import Fault, FaultyProxy, Trouble
from tests.operator.running import RunningOperator
from tests.operator.stage import Object, Stage

AT_A_TIME = 40


@dataclass
class Theatre:
    """An operator that reaches the API server only through a proxy, and is started again when it ends."""

    server: ApiServer
    operator: RunningOperator
    proxy: FaultyProxy
    make_stage: Callable[[ApiServer, RunningOperator], Stage]
    starts: int = 0
    tried: Counter[str] = field(default_factory=Counter)

    def keep_operator(self) -> None:
        if self.operator.has_ended:
            self.operator.start()
            self.starts += 1

    def make_scene(self, trouble: Trouble | None = None) -> Scene:
        stage = self.make_stage(self.server, self.operator)
        ledger = self.proxy.ledger(stage.namespace)
        ledger.asked.clear()  # of the namespace's own beginning, which is not the operator's
        ledger.trouble = trouble
        return Scene(stage, ledger)

    def play(self, life: Life, *troubles: Trouble | None) -> list[Scene]:
        """The same life once for each trouble, all at the same time."""
        return self.play_all([(self.make_scene(trouble), life) for trouble in troubles])

    def play_all(
        self, scenes: list[tuple[Scene, Life]], *, trouble: Callable[[], None] = lambda: None, seconds: float = 120.0
    ) -> list[Scene]:
        """`trouble` may do something to everybody, again and again."""

        def each_round() -> None:
            self.keep_operator()
            trouble()

        play(scenes, each_round=each_round, seconds=seconds)
        for scene, _ in scenes:
            assert not scene.wrong, scene.wrong
        return [scene for scene, _ in scenes]

    def try_all(self, life: Life, *faults: Fault) -> None:
        """Each fault at each request of this life, one at a time for each job."""
        [calm] = self.play(life, None)
        wanted, requests = calm.summarize(), len(calm.ledger.asked)
        assert requests > 10, calm.ledger.asked
        troubles = [Trouble(number, fault) for number in range(requests) for fault in faults]
        for first in range(0, len(troubles), AT_A_TIME):
            for scene in self.play(life, *troubles[first : first + AT_A_TIME]):
                self.compare(scene, wanted, life)

    def compare(self, scene: Scene, wanted: Object, life: Life) -> None:
        trouble = scene.ledger.trouble
        assert scene.summarize() == wanted, f"{life.__name__}: {trouble}\n{scene.ledger.asked}"
        if trouble is not None and trouble.done:
            self.tried[str(trouble.fault)] += 1
