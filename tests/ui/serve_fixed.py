"""Serves the page with jobs of a test: `python -m tests.ui.serve_fixed SCENE FOLDER` prints its address."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from railhead.client.run.run_storage import open_storage
from railhead.client.ui.page_server import open_port, serve_page
from railhead.client.ui.storage_source import StorageSource
from tests.ui.scenes import SCENES


async def main(scene: str, folder: Path) -> None:
    source = SCENES[scene](folder)

    def say(address: str) -> None:
        print(address, flush=True)

    storages = [StorageSource(open_storage(str(place))) for place in [folder / "storage"] if place.is_dir()]
    await serve_page(source, open_port(0), say, storages)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
