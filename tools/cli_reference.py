"""The page docs/reference/cli.md, from the parser of the command line and the table of exit codes."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from railhead.cli.parser import build_parser
from railhead.client.exit_codes import ExitCode
from railhead.client.outputs import OUTPUTS

INTRO = """# Command line

<!-- Written by `make generate` from the commands themselves. -->

`railhead` reads and changes TrainJobs from any machine with a kubeconfig. It needs the rights of the cluster role
`view` to read and those of `edit` to change, and no Ray and no port-forward. It is installed as `kubectl railhead` as
well. [Use the command line](../how-to/command-line.md) says how to install it, and has a command for each task.

- Without `-n` a command uses the namespace of the kubeconfig's context.
- `-o json` and `-o yaml` print the same values, and `-o name` one name a line. In a pipe no line is cut or wrapped.
  Colours appear only on a terminal, and not with `NO_COLOR` set.
- Text from the cluster is printed without control characters.
- Ctrl-C ends the command and never the job.

"""
SEPARATE = {
    "operator": "[Flags of railhead operator](operator-flags.md)",
    "local": "[Local mode](../get-started/local-mode.md)",
}
MEANINGS = {
    ExitCode.DONE: "done; for `wait`: the job got there",
    ExitCode.FAILED: "the command failed; for `wait` and `local run`: the job failed or was deleted",
    ExitCode.USAGE: "the arguments are wrong, or a question was answered with no",
    ExitCode.NOT_FOUND: "the job, its namespace or the resource TrainJob does not exist",
    ExitCode.DENIED: "the API server or the object store does not know or does not permit the user",
    ExitCode.UNREACHABLE: "the kubeconfig is not usable, or the API server does not respond",
    ExitCode.REFUSED: "the API server or Railhead refuses the change; the message says why",
    ExitCode.TIMED_OUT: "the time of --timeout has passed",
    ExitCode.INTERRUPTED: "Ctrl-C; no command changes the job then",
}


def build_page() -> str:
    """Returns the page."""
    codes = "".join(f"| {int(code)} | {meaning} |\n" for code, meaning in MEANINGS.items())
    sections = "".join(_describe(name, parser) for name, parser in find_commands(build_parser()))
    return f"{INTRO}## Exit codes\n\n| Code | Meaning |\n|---|---|\n{codes}{sections}"


def find_commands(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yields each command with its parser, in the order of the help."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.items()


def _describe(name: str, parser: argparse.ArgumentParser) -> str:
    text = f"\n## railhead {name}\n\n"
    if name in SEPARATE:
        return f"{text}See {SEPARATE[name]}.\n"
    usage = " ".join(parser.format_usage().split()).removeprefix("usage: ")
    rows = "".join(_row(action) for action in parser._actions if action.dest != "help")
    table = f"\n| Argument | Meaning |\n|---|---|\n{rows}" if rows else ""
    schema = f"\n[The JSON Schema](cli-schemas/{name}.json) of `-o json`.\n" if name in OUTPUTS else ""
    return f"{text}{parser.description}\n\n```\n{usage}\n```\n{table}{schema}"


def _row(action: argparse.Action) -> str:
    value = f" {action.metavar}" if action.metavar and action.option_strings else ""
    values = f" {{{','.join(map(str, action.choices))}}}" if action.choices else value
    names = ", ".join(f"`{option}`" for option in action.option_strings) or f"`{action.metavar}`"
    meaning = (action.help or "").replace("%(default)s", str(action.default)).replace("|", "\\|")
    return f"| {names}{values.replace('|', chr(92) + '|')} | {meaning} |\n"
