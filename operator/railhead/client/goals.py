"""The states of a job that a command or a script waits for. Imports nothing, because `railhead --help` lists them."""

from __future__ import annotations

from typing import Literal, get_args

Goal = Literal["finished", "succeeded", "failed", "running", "suspended", "checkpoint"]
GOALS: tuple[Goal, ...] = get_args(Goal)
