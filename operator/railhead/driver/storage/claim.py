"""The run becomes this attempt's, right before fit(): the fence first, then everything that reads the run's folder."""

from __future__ import annotations

import os
from typing import Any

from railhead.driver.storage.ask import ask_storage
from railhead.driver.storage.fence import Claim, take_run
from railhead.driver.storage.run_folder import open_run_folder

RUN_CLAIM = "RAILHEAD_RUN_CLAIM"  # from here to the callback that Ray makes


def claim_run(run_config: Any, *, uid: str, attempt: int) -> None:
    """By the trainer's own RunConfig. Raises Fenced, JobRefused or StorageUnreachable."""

    def take() -> Claim:
        return take_run(open_run_folder(run_config), uid=uid, attempt=attempt)

    os.environ[RUN_CLAIM] = str(ask_storage(run_config.storage_path, take))
