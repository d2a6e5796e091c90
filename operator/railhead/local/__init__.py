"""A cluster on this machine: a real control plane, a node agent that runs pods as processes, the operator."""

from collections.abc import Callable

Echo = Callable[[str], None]  # prints a line for the user


class LocalError(RuntimeError):
    """Local mode cannot do what the user asked for; the message says why and what to do."""
