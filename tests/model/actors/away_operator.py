"""The operator itself is away for a while, and the next one knows only what the API server has.

staging/src/k8s.io/client-go/tools/leaderelection: a new leader begins after the old one's lease.
"""

from __future__ import annotations

from tests.model.actors.actor import Actor, Range


class AwayOperator(Actor):
    """For seconds or minutes."""

    def act(self) -> Range:
        self.is_operator_away = not self.is_operator_away
        if not self.is_operator_away:
            return 60, 600
        ranges: tuple[Range, ...] = ((1, 30), (30, 600))
        return self.random.choice(ranges)

    def leave(self) -> None:
        self.is_operator_away = False
