"""`railhead`: dispatches to the command, and turns known errors into a message and an exit code.

A command imports what it needs when it runs: `railhead --help` answers at once, and works without any extra of the
distribution.
"""

from __future__ import annotations

import argparse
import errno
import io
import os
import sys
from collections.abc import Sequence

from railhead import __version__
from railhead.cli import (
    change,
    completion,
    doctor,
    jobs,
    local,
    logs,
    offline,
    operator,
    pods,
    read,
    results,
    submit,
)
from railhead.local import LocalError

INTERRUPTED = 130
# What the packages of the commands are installed with that run on Linux only; the others talk to a cluster.
EXTRAS = {"local": "local,train", "operator": "operator"}
CLIENT_EXTRA = "client"
VERSION = "Print the versions that belong together: Railhead, Ray, the driver and the resource."


def build_parser() -> argparse.ArgumentParser:
    """Returns the parser of all commands; each sets `run`, which takes the options and returns the exit code."""
    parser = argparse.ArgumentParser(prog="railhead", description="Distributed training with Ray Train on Kubernetes.")
    parser.add_argument("--version", action="version", version=f"railhead {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND", dest="command")
    for each in (jobs, read, logs, results, pods, submit, change, doctor, offline, completion, local):
        each.add_commands(commands)
    operator_parser = commands.add_parser("operator", help=operator.__doc__, description=operator.__doc__)
    operator.add_arguments(operator_parser)
    operator_parser.set_defaults(run=operator.run)
    commands.add_parser("version", help=VERSION, description=VERSION).set_defaults(run=show_versions)
    return parser


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Returns the options; `words` are those after --, which argparse would mix with the options of `exec`."""
    own, words = list(arguments), []
    if own[:1] == ["exec"] and "--" in own:
        end = own.index("--")
        own, words = own[:end], own[end + 1 :]
    return build_parser().parse_args(own, argparse.Namespace(words=words))


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code, one of `railhead.client.errors.ExitCode`; an error has a message on stderr."""
    words = sys.argv[1:] if arguments is None else arguments
    prepare_output()
    if words[:1] == [completion.ASK]:
        completion.complete_for_shell(build_parser(), words[1:])
        return 0
    options = parse_arguments(words)
    if options.command in EXTRAS and sys.platform != "linux":
        machine = "use a virtual machine, on Windows WSL 2 (docs/get-started/laptop.md)"
        print(f"railhead: `railhead {options.command}` needs Linux; {machine}", file=sys.stderr)
        return 1
    local.interrupt_on_termination()
    try:
        return int(options.run(options))
    except OSError as error:
        if not is_broken_pipe(error):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    except LocalError as error:
        print(f"railhead: {error}", file=sys.stderr)
        return 1
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("", "railhead"):
            raise
        remedy = f"pip install 'railhead-train[{EXTRAS.get(options.command, CLIENT_EXTRA)}]'"
        print(f"railhead: `railhead {options.command}` needs the package {package}: {remedy}", file=sys.stderr)
        return 1


def prepare_output() -> None:
    """Lets standard output take any character, of which its encoding may lack some, and the same bytes on all systems:
    on Windows a pipe or a file gets the code page of the system and other ends of lines otherwise."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        is_windows = sys.platform == "win32"
        sys.stdout.reconfigure(errors="replace", newline="\n", encoding="utf-8" if is_windows else None)


def is_broken_pipe(error: OSError) -> bool:
    """Whether the reader of the output is gone, as in `railhead ... | head`; Windows can call that another error."""
    return isinstance(error, BrokenPipeError) or (sys.platform == "win32" and error.errno == errno.EINVAL)


def show_versions(_: argparse.Namespace) -> int:
    """Prints what belongs to this version of Railhead."""
    from railhead.api import names
    from railhead.driver.node.ray_node import FEATURES, OLDEST
    from railhead.driver.versions import write_version
    from railhead.resources.bundle import build_bundle, bundle_name

    newer = ", ".join(f"{feature.field} {write_version(feature.since)}" for feature in FEATURES)
    print(f"railhead  {__version__}")
    print(f"Ray       {write_version(OLDEST)} or newer in a job's image ({newer})")
    print(f"driver    ConfigMap {bundle_name(build_bundle())}")
    print(f"CRD       {names.PLURAL}.{names.GROUP} {names.VERSION}, of Railhead {__version__} or newer")
    return 0
