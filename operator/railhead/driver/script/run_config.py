"""What a script's RunConfig leaves unset becomes the job's, so that the next attempt finds the run again."""

from __future__ import annotations

import functools
import os
from typing import Any

from railhead.driver.run_context import STORAGE_PATH, RunSettings

_IS_UNNAMED = "_railhead_is_unnamed"


def complete_run_configs(module: Any) -> None:
    """`module`: ray.train.v2.api.config. An own `storage_filesystem` keeps Ray's default path, which is its own too."""
    original = module.RunConfig.__post_init__

    @functools.wraps(original)
    def __post_init__(self: Any) -> None:
        setattr(self, _IS_UNNAMED, not self.name)
        if self.storage_path is None and self.storage_filesystem is None:
            self.storage_path = os.environ[STORAGE_PATH]
        original(self)

    module.RunConfig.__post_init__ = __post_init__


def name_run(run_config: Any, offer: RunSettings, *, number: int) -> None:
    """Names the run of the script's fit() of this number; a RunConfig that is used again keeps its run, as in Ray."""
    if getattr(run_config, _IS_UNNAMED, False):
        run_config.name = offer.name_run(number)
        setattr(run_config, _IS_UNNAMED, False)
