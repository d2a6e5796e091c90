"""What an object of the API server is to this program: parsed JSON, of which nobody knows more than they look at."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]
Body = Object | list[Object]  # of a request; a JSON Patch is a list
