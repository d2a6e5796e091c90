"""Stop the cluster on this machine, even after a crash. Logs and volumes stay in its folder."""

from __future__ import annotations

import argparse

from railhead.cli.local_options import add_folder, uninterrupted
from railhead.local.session import Session


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_folder(parser)


def run(options: argparse.Namespace) -> int:
    session = Session(options.dir)
    was_up = session.is_up()
    with uninterrupted():
        left = session.down()
    if was_up:
        print(f"stopped; logs are in {session.logs}")
    elif left:
        print(f"stopped {left} processes that a crashed session left behind")
    else:
        print(f"no session is running in {session.folder}")
    return 0
