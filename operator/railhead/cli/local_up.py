"""Start a cluster on this machine: control plane, node agent, operator."""

from __future__ import annotations

import argparse

from railhead.cli.local_options import Console, add_capacity, add_folder, describe_access
from railhead.local.control_plane.binaries import resolve
from railhead.local.session import Session, default_capacity


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_folder(parser)
    add_capacity(parser)
    parser.add_argument(
        "--without-operator", action="store_true", help="do not install Railhead, to try its chart or manifests"
    )


def run(options: argparse.Namespace) -> int:
    console = Console()
    session = Session(options.dir)
    session.refuse_if_up()
    binaries = resolve(console.echo)
    capacity, has_operator = default_capacity(gpus=options.gpus), not options.without_operator
    session.up(capacity, binaries=binaries, echo=console.echo, is_ours_only=False, has_operator=has_operator)
    print(f"\nThe cluster is up. To use it:\n{describe_access(session)}\nTo stop it:\n  railhead local down")
    return 0
