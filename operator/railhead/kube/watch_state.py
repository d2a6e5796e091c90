"""How one watch stands: when it delivered something last, and whether the API server refuses it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from railhead.kube.errors import KubeError
from railhead.kube.kinds import Kind

log = logging.getLogger(__name__)


class WatchState:
    """The watch of one kind, in one namespace or (None) in all.

    Attributes:
        delivered_at: when an event, a bookmark or a part of a list arrived last, by the monotonic clock; at first, when
            this watch was set up.
        on_return: called when the API server lists the objects again that it refused before.
    """

    def __init__(self, kind: Kind, namespace: str | None, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.kind = kind
        self.namespace = namespace
        self.is_refused = False
        self.on_return: Callable[[], None] = lambda: None
        self._monotonic = monotonic
        self.delivered_at = monotonic()

    @property
    def place(self) -> str:
        return f"{self.kind.plural} in {'namespace ' + self.namespace if self.namespace else 'all namespaces'}"

    @property
    def age(self) -> float:
        """Seconds since it delivered something. The API server sends a bookmark each minute."""
        return self._monotonic() - self.delivered_at

    def deliver(self) -> None:
        """An event, a bookmark or a part of a list has arrived."""
        self.delivered_at = self._monotonic()

    def refuse(self, error: KubeError) -> None:
        """The API server answered 403 or 404: the namespace or the right to watch it is gone."""
        if not self.is_refused:
            log.error("cannot watch %s, whose jobs are not managed meanwhile: %s; trying again", self.place, error)
        self.is_refused = True

    def accept(self) -> None:
        """The API server listed the objects."""
        was_refused, self.is_refused = self.is_refused, False
        if was_refused:
            log.info("watching %s again", self.place)
            self.on_return()
