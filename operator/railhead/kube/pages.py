"""The pages of a list: bounded by bytes, whatever a tenant stores.

The API server counts objects only, and an object may have a megabyte. Parsed, it takes up to 30 times its bytes, as a
list of empty lists does. A page is therefore read up to a limit, and one above it is requested again with half as many
objects.
"""

from __future__ import annotations

import aiohttp

# Objects of a page at first: the API server, which builds a page before any of it is read, needs memory for them, too.
PAGE_SIZE = 100
PAGE_BYTES = 4 << 20


class PageTooLarge(Exception):
    """A page has more than PAGE_BYTES and more than one object; its connection is closed."""


async def read_page(response: aiohttp.ClientResponse, *, size: int) -> bytes:
    """Returns the body of a page of at most `size` objects. A single object cannot be divided, so it is read whole.

    Raises:
        PageTooLarge: the rest was not read; ask again for `halve(size)` objects.
        aiohttp.ClientError: or TimeoutError, OSError: the body is incomplete.
    """
    if size == 1:
        return bytes(await response.read())
    data = bytearray()
    async for chunk in response.content.iter_any():
        data += chunk
        if len(data) > PAGE_BYTES:
            response.close()
            raise PageTooLarge
    return bytes(data)


def halve(size: int) -> int:
    """Returns the number of objects to ask for after a page that was too large."""
    return max(1, size // 2)
