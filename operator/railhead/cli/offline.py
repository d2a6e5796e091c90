"""`railhead explain` and `render`: what needs no cluster."""

from __future__ import annotations

import argparse
from pathlib import Path

from railhead.cli.cluster_command import Subparsers, explain_refusal
from railhead.cli.output import Console

EXPLAIN = "Explain a field of the TrainJob of this version: type, default, bounds, and the fields in it."
RENDER = "Print what the operator would create for the TrainJobs of a file, without a cluster. Tokens are hidden."


def add_commands(commands: Subparsers[argparse.ArgumentParser]) -> None:
    explain = commands.add_parser("explain", help=EXPLAIN, description=EXPLAIN)
    explain.add_argument("field", metavar="FIELD", nargs="?", default="", help="such as scaling.numWorkers or status")
    explain.set_defaults(run=lambda options: explain_refusal(lambda: explain_field(options, Console())))
    render = commands.add_parser("render", help=RENDER, description=RENDER)
    render.add_argument("file", metavar="FILE", type=Path, help="manifests with TrainJobs")
    render.set_defaults(run=lambda options: explain_refusal(lambda: render_file(options, Console())))


def explain_field(options: argparse.Namespace, console: Console) -> int:
    from railhead.client import fields

    field = fields.explain_field(options.field)
    console.line(f"{field.path} ({field.type})")
    console.paragraph(field.description, "  ")
    for limit in field.limits:
        console.paragraph(limit, "  ")
    for name, description in field.fields:
        console.line()
        console.line(f"{name}")
        console.paragraph(description, "  ")
    return 0


def render_file(options: argparse.Namespace, console: Console) -> int:
    """Prints the objects as YAML documents."""
    from railhead.client.rendering import read_jobs, render_job

    for job in read_jobs(options.file):
        for body in render_job(job):
            console.line("---")
            console.data(body, "yaml")
    return 0
