"""`railhead`: dispatches to the command, and turns known errors into a message and an exit code."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from railhead import __version__
from railhead.cli import local_down, local_run, local_status, local_up, operator, version
from railhead.cli.local_options import interrupt_on_termination
from railhead.local.assets import MissingAsset
from railhead.local.control_plane.binaries import NoControlPlane
from railhead.local.install import KubectlFailed
from railhead.local.jobs import BadFile
from railhead.local.session import SessionError

KNOWN = (BadFile, KubectlFailed, MissingAsset, NoControlPlane, SessionError)
INTERRUPTED = 130
LOCAL = {"up": local_up, "down": local_down, "status": local_status, "run": local_run}


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="railhead", description="Distributed training with Ray Train on Kubernetes.")
    parser.add_argument("--version", action="version", version=f"railhead {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    local = commands.add_parser("local", help="a Kubernetes cluster on this machine, with Railhead in it")
    local_commands = local.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for name, command in LOCAL.items():
        _add(local_commands, name, command)
    _add(commands, "operator", operator)
    _add(commands, "version", version)
    return parser


def _add(commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, command: object) -> None:
    text = (command.__doc__ or "").strip()
    parser = commands.add_parser(name, help=text.splitlines()[0], description=text)
    command.add_arguments(parser)  # type: ignore[attr-defined]  # a module: the package's docstring has its interface
    parser.set_defaults(run=command.run)  # type: ignore[attr-defined]


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 0 done, 1 failed (with a message on stderr), 2 bad usage, 130 interrupted."""
    options = build_parser().parse_args(arguments)
    interrupt_on_termination()
    try:
        return int(options.run(options))
    except BrokenPipeError:  # the reader is gone, as in `railhead ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    except KNOWN as error:
        print(f"railhead: {error}", file=sys.stderr)
        return 1
