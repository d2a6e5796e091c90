"""Marks the forward passes of a framework's model, which contains the loss, as `railhead.training.compute` does."""

from __future__ import annotations

from typing import Callable

from torch import nn

from railhead.contract.callbacks import ignore
from railhead.driver.rank.sections import SECTIONS


def mark_forward_passes(module: nn.Module) -> Callable[[], None]:
    """Marks those in training mode, and returns what ends that.

    `module` is the one within DDP, whose own broadcast of buffers waits for rank 0. A module that is compiled is left
    alone, since the compiler would trace the hooks.
    """
    if getattr(module, "_compiled_call_impl", None) is not None:
        return ignore
    hooks = (module.register_forward_pre_hook(_begin), module.register_forward_hook(_end))

    def end() -> None:
        for hook in hooks:
            hook.remove()

    return end


def _begin(module: nn.Module, *_: object) -> None:
    if module.training:
        SECTIONS.begin()


def _end(module: nn.Module, *_: object) -> None:
    if module.training:
        SECTIONS.end()
