"""`railhead doctor`: is the cluster ready for TrainJobs."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from railhead.cli.cluster_command import SCREEN, Subparsers, add_command
from railhead.cli.output import Console

if TYPE_CHECKING:
    from railhead.client.cluster import Cluster
    from railhead.client.readiness import Check

DOCTOR = (
    "Check whether the cluster is ready for TrainJobs; it changes nothing. The exit code is 1 if a check found an "
    "error, else 4 if the user may not make all checks, else 0."
)


def add_commands(commands: Subparsers[argparse.ArgumentParser]) -> None:
    add_command(commands, "doctor", DOCTOR, show_checks, formats=SCREEN, has_name=False, is_for_all=True)


async def show_checks(options: argparse.Namespace, cluster: Cluster, console: Console) -> int:
    """Prints each check with its remedy."""
    from railhead.client.doctor import examine
    from railhead.client.outputs import Checks

    checks = await examine(cluster)
    if options.output != "table":
        console.data(Checks(tuple(checks)), options.output)
        return find_exit_code(checks)
    for check in checks:
        message = " ".join(check.message.split())  # a line of its own could look like another check
        console.paragraph(f"{check.level}: {check.subject}: {message}")
        if check.remedy:
            console.paragraph(f"What to do: {check.remedy}", "  ")
    return find_exit_code(checks)


def find_exit_code(checks: Sequence[Check]) -> int:
    """Returns that of the worst check; a warning is not worse than ok."""
    from railhead.client.errors import ExitCode
    from railhead.client.readiness import ERROR, NOT_PERMITTED

    levels = {check.level for check in checks}
    if ERROR in levels:
        return ExitCode.FAILED
    return ExitCode.DENIED if NOT_PERMITTED in levels else ExitCode.DONE
