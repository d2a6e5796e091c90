"""`railhead render`, which needs no cluster."""

from __future__ import annotations

import argparse

from railhead.cli.output import Console
from railhead.client.submit.rendering import read_jobs, render_job


def do_render(options: argparse.Namespace) -> int:
    """Prints the objects as YAML documents."""
    console = Console()
    for job in read_jobs(options.file):
        for body in render_job(job):
            console.line("---")
            console.print_if_data(body, "yaml")
    return 0
