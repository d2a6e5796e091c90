"""End the cluster on this machine, also after a crash. Logs and volumes stay in its folder."""

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
        print(f"ended; logs are in {session.logs}")
    elif left:
        print(f"ended what a crashed session had left ({left} processes)")
    else:
        print(f"nothing runs in {session.folder}")
    return 0
