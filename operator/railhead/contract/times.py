"""Times as Kubernetes writes them."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Optional

UNITS = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))  # of seconds, the largest first
SECONDS_MATTER_BELOW = 600


def format_time(moment: datetime) -> str:
    return moment.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def format_duration(seconds: int) -> str:
    """Returns its two largest units: 45s, 2m5s, 3h20m, 2d4h; no seconds from ten minutes on."""
    for (size, unit), (smaller, next_unit) in zip(UNITS, UNITS[1:]):
        if seconds < size:
            continue
        count, rest = divmod(seconds, size)
        if rest < smaller or (next_unit == "s" and seconds >= SECONDS_MATTER_BELOW):
            return f"{count}{unit}"
        return f"{count}{unit}{rest // smaller}{next_unit}"
    return f"{seconds}s"


def describe_age(since: str, now: datetime) -> str:
    """Returns the time since then in the two largest units, as kubectl does: 45s, 12m, 3h20m, 2d4h; "" if unknown."""
    at = parse_time(since)
    if at is None:
        return ""
    return format_duration(max(0, int((now - at).total_seconds())))


def now_text() -> str:
    """Returns the current time of this machine's clock."""
    return format_time(datetime.now(timezone.utc))


def parse_time(text: Optional[str]) -> Optional[datetime]:
    """Returns the time, or None for any other text, and for a time so far off that adding to it might overflow.

    A time without a zone is UTC.
    """
    try:
        moment = datetime.fromisoformat((text or "").replace("Z", "+00:00"))
    except ValueError:
        return None
    if not 1900 < moment.year < 9000:
        return None
    if moment.tzinfo:
        return moment
    return moment.replace(tzinfo=timezone.utc)
