"""What a user is told when a TrainJob cannot be understood."""

from __future__ import annotations


class InvalidSpec(ValueError):
    """A TrainJob whose spec cannot be acted on.

    Attributes:
        field: the path of the field at fault, as the user wrote it (`spec.scaling.numWorkers`).
        message: what is wrong and what to do.
    """

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.message = message
