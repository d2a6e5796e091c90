"""The memory of the host that saves in the background copy the state to, one save after the other.

Training waits for the copy. Memory that is new costs several times what the copy costs, and from a GPU torch would copy
each sharded tensor twice, into memory that is not pinned.
"""

from __future__ import annotations

from typing import Any, Dict, Optional

import torch
from torch.distributed._state_dict_utils import _copy_state_dict, _create_cpu_state_dict


class StateCopy:
    """Memory for one copy of the state, which one save may use at a time."""

    def __init__(self) -> None:
        self._memory: Optional[Dict[str, Any]] = None
        self._described: object = None

    def take(self, state: Dict[str, Any]) -> Dict[str, Any]:
        """Returns a copy of the state; the one before it is lost. Other tensors get new memory."""
        described = _describe(state)
        if self._memory is None or described != self._described:
            # Freed before the next one is allocated, or both would be in memory at once.
            self._memory = None
            memory = _create_cpu_state_dict(state, pin_memory=torch.cuda.is_available())
            self._memory = {key: _own(inner, state[key]) for key, inner in memory.items()}
            self._described = described
        copied: Dict[str, Any] = _copy_state_dict(state, self._memory, type_check=False)
        return copied


def _own(memory: Any, value: Any) -> Any:
    """Returns the memory without what training uses: torch takes a DTensor without dimensions as it is."""
    if isinstance(memory, torch.Tensor) and memory is value:
        return memory.detach().clone()
    if isinstance(memory, dict):
        return {key: _own(inner, value[key]) for key, inner in memory.items()}
    if isinstance(memory, (list, tuple)):
        return [_own(inner, given) for inner, given in zip(memory, value)]
    return memory


def _describe(value: object) -> object:
    """Returns what must be the same for the memory to fit: the tensors, and where they are in the state."""
    if isinstance(value, torch.Tensor):
        return type(value), value.dtype, value.shape, getattr(value, "placements", None)
    if isinstance(value, dict):
        return {key: _describe(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_describe(inner) for inner in value]
    return type(value)
