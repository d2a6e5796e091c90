"""Times as the API server writes them: RFC 3339, UTC, whole seconds."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Optional


def format_time(moment: datetime) -> str:
    return moment.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def now_text() -> str:
    """The present moment of this machine's clock."""
    return format_time(datetime.now(timezone.utc))


def parse_time(text: str) -> Optional[datetime]:
    """The moment, or None for a text that is not a time. A text without a zone is UTC."""
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
