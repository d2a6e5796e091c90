"""Show whether the cluster on this machine is up. Exit code 0 if it is."""

from __future__ import annotations

import argparse

from railhead.cli.local_options import add_folder, describe_access
from railhead.local.processes import is_alive
from railhead.local.session import Session


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_folder(parser)


def run(options: argparse.Namespace) -> int:
    session = Session(options.dir)
    state = session.state()
    if not session.is_up():
        print(f"{session.folder}: not up" + (f" ({state.message})" if state.message else ""))
        return 1
    print(f"{session.folder}: {state.phase}, {state.server}, {state.gpus} GPUs")
    for name, identity in state.processes.items():
        print(f"  {name:<24} pid {identity.pid:<8} {'running' if is_alive(identity) else 'exited'}")
    print(describe_access(session))
    return 0
