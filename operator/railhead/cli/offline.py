"""`railhead explain` and `render`: what needs no cluster."""

from __future__ import annotations

import argparse

from railhead.cli.output import Console
from railhead.client import fields
from railhead.client.rendering import read_jobs, render_job


def explain_field(options: argparse.Namespace) -> int:
    """Prints what the CRD says of the field."""
    field, console = fields.explain_field(options.field), Console()
    console.line(f"{field.path} ({field.type})")
    console.paragraph(field.description, "  ")
    for limit in field.limits:
        console.paragraph(limit, "  ")
    for name, description in field.fields:
        console.line()
        console.line(f"{name}")
        console.paragraph(description, "  ")
    return 0


def render_file(options: argparse.Namespace) -> int:
    """Prints the objects as YAML documents."""
    console = Console()
    for job in read_jobs(options.file):
        for body in render_job(job):
            console.line("---")
            console.print_if_data(body, "yaml")
    return 0


COMMANDS = {"explain": explain_field, "render": render_file}
