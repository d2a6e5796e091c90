"""`railhead`: dispatches to the command, and turns known errors into a message and an exit code.

`railhead --help` answers at once, and works without any extra of the distribution.
"""

from __future__ import annotations

import argparse
import errno
import inspect
import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module

from railhead.cli.output import Console, prepare_output
from railhead.cli.parser import parse_arguments
from railhead.client.exit_codes import ClientError, ExitCode
from railhead.local import LocalError

# What the modules of commands are installed with; all others with `client`.
EXTRAS = {"local": "local,train", "operator": "operator", "ui": "ui"}
LINUX_ONLY = ("local", "operator")


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code, one of `railhead.client.exit_codes.ExitCode`; an error has a message on stderr."""
    prepare_output()
    if "_ARGCOMPLETE" in os.environ:
        # Imported here, since with it comes argcomplete, which takes time.
        from railhead.cli.completion import complete_for_shell

        complete_for_shell()
    options = parse_arguments(sys.argv[1:] if arguments is None else arguments)
    if options.module in LINUX_ONLY and sys.platform != "linux":
        machine = "use a virtual machine, on Windows WSL 2 (docs/get-started/laptop.md)"
        print(f"railhead: `railhead {options.module}` needs Linux; {machine}", file=sys.stderr)
        return 1
    interrupt_on_termination()
    try:
        return run_command(options)
    except OSError as error:
        if not is_broken_pipe(error):
            raise
        # Python flushes standard output when it exits, which would print another error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except (ClientError, LocalError) as error:
        Console(sys.stderr).paragraph(f"railhead: {error}")
        if isinstance(error, ClientError):
            return error.code
        return 1
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("", "railhead"):
            raise
        name = options.module if options.module in EXTRAS else options.command
        remedy = f"pip install 'railhead-train[{EXTRAS.get(options.module, 'client')}]'"
        print(f"railhead: `railhead {name}` needs the package {package}: {remedy}", file=sys.stderr)
        return 1


def run_command(options: argparse.Namespace) -> int:
    """Runs `do_COMMAND` of the command's module; one that is asynchronous gets the cluster that the options name.

    With --folder it runs `do_COMMAND_of_folder`, if the command has that: it needs no cluster.
    """
    module = import_module(f"railhead.cli.{options.module}")
    function = getattr(module, f"do_{options.command}")
    if getattr(options, "folder", None):
        function = getattr(module, f"do_{options.command}_of_folder", function)
    if not inspect.iscoroutinefunction(function):
        return int(function(options))
    # Imported here, since with it comes the client, which `--help` does not need.
    from railhead.cli.cluster_command import run_in_cluster

    return int(run_in_cluster(function, options))


def interrupt_on_termination() -> None:
    """Lets SIGTERM and a closed terminal clean up just as Ctrl-C does."""
    # Windows has no SIGHUP.
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.default_int_handler)


def is_broken_pipe(error: OSError) -> bool:
    """Returns whether the reader of the output is gone, as in `railhead ... | head`; Windows can call that another
    error."""
    return isinstance(error, BrokenPipeError) or (sys.platform == "win32" and error.errno == errno.EINVAL)
