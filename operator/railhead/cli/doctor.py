"""`railhead doctor`: is the cluster ready for TrainJobs."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from railhead.cli.output import Console
from railhead.client.cluster.connection import Cluster
from railhead.client.cluster.examine import examine
from railhead.client.cluster.readiness import ERROR, NOT_PERMITTED, Check
from railhead.client.exit_codes import ExitCode
from railhead.client.outputs import Checks


async def do_doctor(options: argparse.Namespace, cluster: Cluster, console: Console) -> int:
    """Prints each check with its remedy."""
    checks = await examine(cluster)
    if console.print_if_data(Checks(tuple(checks)), options.output):
        return choose_exit_code(checks)
    for check in checks:
        # A line of its own could look like another check.
        message = " ".join(check.message.split())
        console.paragraph(f"{check.level}: {check.subject}: {message}")
        if check.remedy:
            console.paragraph(f"What to do: {check.remedy}", "  ")
    return choose_exit_code(checks)


def choose_exit_code(checks: Sequence[Check]) -> int:
    """Returns that of the worst check; a warning is not worse than ok."""
    levels = {check.level for check in checks}
    if ERROR in levels:
        return ExitCode.FAILED
    if NOT_PERMITTED in levels:
        return ExitCode.DENIED
    return ExitCode.DONE
