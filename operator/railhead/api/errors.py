"""The error for a TrainJob with an invalid spec."""

from __future__ import annotations


class InvalidSpec(ValueError):
    """A TrainJob whose spec is invalid.

    Attributes:
        field: the path of the field at fault, as the user wrote it (`spec.scaling.numWorkers`).
        message: what is wrong and what to do.
    """

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.message = message
