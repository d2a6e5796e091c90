"""`railhead stacks`: where each rank of a job is, also while it hangs."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from railhead.cli.cluster_command import SCREEN, Subparsers, add_command
from railhead.cli.output import Console

if TYPE_CHECKING:
    from railhead.client.cluster import Cluster

STACKS = (
    "Show the Python stacks of all ranks: each different stack once, that of the fewest ranks first, since the others "
    "usually wait for those ranks. Training continues. Needs kubectl."
)


def add_commands(commands: Subparsers[argparse.ArgumentParser]) -> None:
    """Adds the command."""
    add_command(commands, "stacks", STACKS, show_stacks, formats=SCREEN)


async def show_stacks(options: argparse.Namespace, cluster: Cluster, console: Console) -> int:
    """Prints the stacks below the ranks that have them."""
    from railhead.client.kubectl import build_exec
    from railhead.client.outputs import Stacks
    from railhead.client.stacks import collect_stacks, group_stacks

    base = build_exec(cluster.namespace, options.kubeconfig, options.context)
    stacks = await collect_stacks(cluster, options.name, base)
    if options.output != "table":
        console.data(Stacks(tuple(stacks)), options.output)
        return 0
    for heading, text in group_stacks(stacks):
        console.line(heading)
        for line in text.splitlines():
            console.line(f"  {line}")
    return 0
