"""Learns where a tracker shows the run of this rank: from the user's code, or from Weights & Biases itself.

Imports no tracker, and asks no server.
"""

from __future__ import annotations

import functools
import os
import sys
from dataclasses import dataclass

from railhead.contract.trackers import is_link
from railhead.driver.messages.redaction import hide_credentials, strip_credentials


@dataclass
class Links:
    """The links of this process, which trains once: what the user's code has told, and the last one of W&B's runs."""

    told: str = ""
    found: str = ""


LINKS = Links()


def note_link(url: str) -> None:
    """Keeps the link that the user's code tells, if it may be shown; else the last one stays."""
    LINKS.told = clean_link(url) or LINKS.told


def read_link() -> str:
    """Returns the link, or an empty string. Never raises."""
    LINKS.found = _find_wandb_link() or LINKS.found
    return LINKS.told or LINKS.found


@functools.lru_cache(maxsize=8)  # it is read for each report
def clean_link(url: str) -> str:
    """Returns the address without a user and tokens; empty if it is none, or has one of this process's credentials."""
    url = strip_credentials(url)
    if not is_link(url) or hide_credentials(url, os.environ) != url:
        return ""
    return url


def _find_wandb_link() -> str:
    """Returns the page of the run that is active in this process; empty without one, and for one that is offline."""
    wandb = sys.modules.get("wandb")
    if wandb is None:
        return ""
    try:
        run = wandb.run
        if run is None or run.offline:
            return ""
        return clean_link(run.url or "")
    except Exception:
        # The module may be of another version, half imported, or the user's own one of this name.
        return ""
