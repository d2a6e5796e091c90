"""The functions of Ray Train that the driver replaces by its own."""

from __future__ import annotations

from importlib import metadata
from typing import Any

from railhead.driver.errors import JobRefused


def find_hook(module: Any, name: str) -> Any:
    """Ray's own function. Raises JobRefused when this Ray lacks it."""
    found = getattr(module, name, None)
    if found is None:
        problem = f"Ray {metadata.version('ray')} has no {name} in {module.__name__}"
        message = f"spec.image: {problem}; use a Ray version that Railhead is tested with"
        raise JobRefused("RayTrainNotUsable", message)
    return found
