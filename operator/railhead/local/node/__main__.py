"""`python -m railhead.local.node`: the node agent as its own process."""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
from pathlib import Path

from railhead.kube.client import connect
from railhead.local.node.agent import Agent, keep_alive, register, serve_logs
from railhead.local.node.volumes import provide_volumes
from railhead.local.session import TEMP_NOTE, Capacity
from railhead.together import run_together


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="railhead.local.node", description="Runs a node's pods as processes.")
    parser.add_argument("--plane", type=Path, required=True, help="folder of the control plane")
    parser.add_argument("--server", required=True, help="URL of the API server, for pods that talk to it")
    parser.add_argument("--dir", type=Path, required=True, help="folder of the volumes")
    parser.add_argument("--cpus", type=int, required=True)
    parser.add_argument("--memory", type=int, required=True, help="bytes")
    parser.add_argument("--gpus", type=int, default=0, help="number of GPUs to advertise")
    return parser.parse_args(arguments)


async def run(options: argparse.Namespace) -> None:
    """Runs until SIGTERM or SIGINT, then ends all pods' processes."""
    stop = asyncio.Event()
    for sig in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(sig, stop.set)
    capacity = Capacity(options.cpus, options.memory, options.gpus)
    async with connect(str(options.plane / "node.kubeconfig")) as client:
        agent = Agent(client, capacity, server=options.server)
        options.dir.mkdir(parents=True, exist_ok=True)
        (options.dir / TEMP_NOTE).write_text(str(agent.folder))
        async with serve_logs(agent, pki=options.plane / "pki") as port:
            await register(client, capacity, port=port)
            loops = (
                agent.informer.run(),
                agent.services.run(),
                keep_alive(client, capacity, port=port),
                provide_volumes(client, options.dir / "volumes"),
            )
            try:
                await run_together(*loops, stop.wait())
            finally:
                await agent.close()


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    asyncio.run(run(parse()))


if __name__ == "__main__":
    main()
