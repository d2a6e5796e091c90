"""Times the sections of computing that training code marks: plain sums, which the controller reads with the steps.

On a GPU the host only queues work, so a pair of CUDA events measures a section there, and is read once the GPU has
passed both: nothing waits for it, and a section is left out while too many are not over yet. Elsewhere the host's clock
measures it. A section that begins within another one takes its place.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from typing import Deque, List, Optional, Protocol, Tuple

from railhead.driver.rank.steps import STEPS, RankProgress

# Sections that the GPU has not finished; their events are used again and again.
MOST_PENDING = 64


class CudaEvent(Protocol):
    """One of `torch.cuda.Event`."""

    def record(self) -> None: ...
    def query(self) -> bool: ...
    def elapsed_time(self, end: CudaEvent) -> float: ...  # milliseconds


class Cuda(Protocol):
    """What is used of `torch.cuda`."""

    def is_initialized(self) -> bool: ...
    def is_current_stream_capturing(self) -> bool: ...
    def Event(self, _enables_timing: bool, /) -> CudaEvent: ...


Pair = Tuple[CudaEvent, CudaEvent]


class Sections:
    """As a context manager one section; what it does never raises, and a section that raises does not count."""

    def __init__(self, sums: RankProgress) -> None:
        self._sums = sums
        self._began: Optional[float] = None  # by the host's clock
        self._open: Optional[Pair] = None  # a section on the GPU
        self._pending: Deque[Pair] = deque()
        self._free: List[Pair] = []
        self._is_broken = False  # CUDA has failed, which the user's next call on it raises

    def __enter__(self) -> None:
        self.begin()

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.end()

    def begin(self) -> None:
        cuda = _find_cuda()
        if cuda is None:
            self._began = time.perf_counter()
        elif not self._is_broken:
            self._began = None
            self._try_on_gpu(cuda, is_begin=True)

    def end(self) -> None:
        """Has no effect without a section that has begun."""
        if self._began is not None:
            self._add(time.perf_counter() - self._began)
            self._began = None
        elif self._open is not None:
            self._try_on_gpu(_find_cuda(), is_begin=False)

    def _try_on_gpu(self, cuda: Optional[Cuda], *, is_begin: bool) -> None:
        try:
            # A graph's events have no times.
            if cuda is None or cuda.is_current_stream_capturing():
                self._drop()
            elif is_begin:
                self._begin_on_gpu(cuda)
            else:
                self._end_on_gpu()
        except Exception:
            self._is_broken = True
            self._open = None

    def _begin_on_gpu(self, cuda: Cuda) -> None:
        self._drop()
        while self._pending and self._pending[0][1].query():
            pair = self._pending.popleft()
            self._add(pair[0].elapsed_time(pair[1]) / 1000)
            self._free.append(pair)
        if self._free:
            self._open = self._free.pop()
        elif len(self._pending) < MOST_PENDING:
            self._open = (cuda.Event(True), cuda.Event(True))
        if self._open is not None:
            self._open[0].record()

    def _end_on_gpu(self) -> None:
        pair, self._open = self._open, None
        if pair is not None:
            pair[1].record()
            self._pending.append(pair)

    def _drop(self) -> None:
        if self._open is not None:
            self._free.append(self._open)
            self._open = None

    def _add(self, seconds: float) -> None:
        self._sums.section_seconds += seconds
        self._sums.sections += 1


def _find_cuda() -> Optional[Cuda]:
    """Returns `torch.cuda` once this process uses a GPU; never imports it."""
    cuda: Optional[Cuda] = getattr(sys.modules.get("torch"), "cuda", None)
    if cuda is not None and cuda.is_initialized():
        return cuda
    return None


SECTIONS = Sections(STEPS)
