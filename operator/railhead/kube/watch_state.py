"""How one watch stands: whether the API server refuses it."""

from __future__ import annotations

import logging
from collections.abc import Callable

from railhead.kube.errors import KubeError
from railhead.kube.kinds import Kind

log = logging.getLogger(__name__)


class WatchState:
    """The watch of one kind, in one namespace or (None) in all.

    Attributes:
        on_return: called when the API server lists the objects again that it refused before.
    """

    def __init__(self, kind: Kind, namespace: str | None) -> None:
        self.kind = kind
        self.namespace = namespace
        self.is_refused = False
        self.on_return: Callable[[], None] = lambda: None

    @property
    def place(self) -> str:
        return f"{self.kind.plural} in {'namespace ' + self.namespace if self.namespace else 'all namespaces'}"

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
