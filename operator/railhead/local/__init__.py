"""A cluster on this machine: a real control plane, a node agent that runs pods as processes, the operator."""


class LocalError(RuntimeError):
    """Local mode cannot do what the user asked for; the message says why and what to do."""
