"""Calls from Ray Train's controller to the processes of its worker group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Iterable, Mapping, Optional, Tuple


@dataclass(frozen=True)
class Answer:
    """`value`, or the `error` that Ray raised instead; neither if the process did not respond in time."""

    value: Any = None
    error: Optional[Exception] = None


def call_ranks(
    worker_group: Any,
    ranks: Iterable[int],
    function: Callable[..., Any],
    *,
    each: Mapping[int, Tuple[Any, ...]] = {},
    timeout: float,
) -> dict[int, Answer]:
    """rank -> its answer, within `timeout` seconds for all of them together; `each`: rank -> its own arguments."""
    import ray

    references = {rank: worker_group.execute_single_async(rank, function, *each.get(rank, ())) for rank in ranks}
    if not references:
        return {}
    ready, _ = ray.wait(list(references.values()), num_returns=len(references), timeout=timeout)
    answered = set(ready)
    return {rank: _read(reference) if reference in answered else Answer() for rank, reference in references.items()}


def _read(reference: Any) -> Answer:
    import ray

    try:
        return Answer(ray.get(reference))
    except Exception as error:  # its process has exited
        return Answer(error=error)
