"""`railhead ui`: a page in the browser, with the user's own rights."""

from __future__ import annotations

import argparse

from railhead.cli.output import Console, remark
from railhead.client.cluster.connection import Cluster


async def do_ui(options: argparse.Namespace, cluster: Cluster, console: Console) -> int:
    """Serves the page until it is interrupted."""
    # NiceGUI takes more than a second to import, which only this command pays.
    from railhead.client.run.run_storage import open_storage
    from railhead.client.ui.cluster_source import ClusterSource
    from railhead.client.ui.page_server import open_port, serve_page
    from railhead.client.ui.storage_source import StorageSource

    storages = [StorageSource(open_storage(place)) for place in options.storage]
    listener = open_port(options.port)
    source = ClusterSource(cluster, options.selector, options.endpoint, options.reader_image)

    def tell(address: str) -> None:
        console.line(address)
        remark("open this address in a browser of this machine; Ctrl-C ends the page")

    await serve_page(source, listener, tell, storages)
    return 0
