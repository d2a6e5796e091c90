"""Changes of a mailbox in one line, for tests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from railhead.driver.mailbox.mailbox import MailboxFile


def tell(box: MailboxFile[Any], **changes: Any) -> None:
    """Sets fields of a value, as its one writer does."""
    box.change(lambda value: replace(value, **changes))
