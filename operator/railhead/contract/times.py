"""Times as Kubernetes writes them."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Optional


def format_time(moment: datetime) -> str:
    return moment.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def now_text() -> str:
    """The current time of this machine's clock."""
    return format_time(datetime.now(timezone.utc))


def parse_time(text: Optional[str]) -> Optional[datetime]:
    """The time, or None for any other text. A time without a zone is UTC. None, too, for a time so far off that adding
    to it might overflow."""
    try:
        moment = datetime.fromisoformat((text or "").replace("Z", "+00:00"))
    except ValueError:
        return None
    if not 1900 < moment.year < 9000:
        return None
    if moment.tzinfo:
        return moment
    return moment.replace(tzinfo=timezone.utc)
