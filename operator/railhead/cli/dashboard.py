"""`railhead dashboard`: Ray's own dashboard of a running job, in the browser."""

from __future__ import annotations

import argparse
import asyncio
import webbrowser

from railhead.api import names
from railhead.cli.output import Console, remark
from railhead.client.cluster.connection import Cluster
from railhead.client.cluster.dashboard_forward import Dashboard, find_dashboard, open_dashboard
from railhead.client.exit_codes import ClientError


async def do_dashboard(options: argparse.Namespace, cluster: Cluster, console: Console) -> int:
    """Forwards the dashboard's port until it is interrupted; in local mode only prints the address."""
    dashboard = await find_dashboard(cluster, options.name)

    async def show(address: str) -> None:
        console.line(address)
        await _show_token(cluster, dashboard, console)
        if options.open:
            await _open_in_browser(address)
        if not dashboard.address:
            remark("open this address in a browser of this machine; Ctrl-C ends the forward")

    await open_dashboard(cluster, dashboard, options.port, show)
    return 0


async def _open_in_browser(address: str) -> None:
    """Opens the address, which has no token: other users of the machine see the arguments of a browser."""
    # A browser of a terminal returns only when the person leaves it, and the forward must run meanwhile.
    is_open = await asyncio.to_thread(webbrowser.open, address)
    if not is_open:
        remark("this machine has no browser that --open could use")


async def _show_token(cluster: Cluster, dashboard: Dashboard, console: Console) -> None:
    """Prints the token on a terminal only: elsewhere it would end up in a file or a log."""
    if not console.is_terminal:
        path = f"'{{.data.{names.TOKEN_KEY}}}'"
        command = f"kubectl get secret {dashboard.secret} -n {cluster.namespace} -o jsonpath={path} | base64 -d"
        remark(f"the page asks for Ray's token, which this prints: {command}")
        return
    try:
        token = await cluster.read_secret(dashboard.secret, names.TOKEN_KEY)
    except ClientError as error:
        remark(f"the page asks for Ray's token: {error}")
        return
    console.line(f"token: {token}")
    remark("the page asks once for this token; whoever has it can run code in the job's pods")
