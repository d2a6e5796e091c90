"""`railhead completion`, and what argcomplete cannot know: names and ranks, which come from the cluster.

For each Tab the shell, or kubectl, starts the program again, with the line in environment variables.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import os
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import NoReturn, TextIO

import argcomplete
from argcomplete.completers import BaseCompleter, FilesCompleter
from argcomplete.shell_integration import shellcode

from railhead.cli.output import prepare_output
from railhead.cli.parser import build_parser, job_name
from railhead.client.exit_codes import ClientError
from railhead.json_object import Object

SECONDS = 3.0  # for the cluster's answer; a shell shows nothing meanwhile
# kubectl wants each candidate on a line, without a space behind it, and of --output=wide the value alone. Like fish,
# it quotes the candidates itself.
FOR_KUBECTL = {
    "_ARGCOMPLETE": "1",
    "_ARGCOMPLETE_COMP_WORDBREAKS": "=",
    "_ARGCOMPLETE_IFS": "\n",
    "_ARGCOMPLETE_SHELL": "fish",
}


def do_completion(options: argparse.Namespace) -> int:
    """Prints the script of the shell."""
    print(shellcode(["railhead"], shell=options.shell).strip())
    return 0


def complete_for_shell() -> NoReturn:
    """Tells the shell what the word at the cursor may become, and ends the process."""
    complete_line(os._exit)


def complete_for_kubectl() -> None:
    """Answers kubectl, which starts the program kubectl_complete-railhead; :0 says that files may follow."""
    prepare_output()
    line = " ".join(["railhead", *sys.argv[1:]])
    os.environ.update(FOR_KUBECTL, COMP_LINE=line, COMP_POINT=str(len(line)))
    found = io.StringIO()
    with suppress(SystemExit):
        complete_line(sys.exit, found)
    print(*found.getvalue().splitlines(), ":0", sep="\n")


def complete_line(end: Callable[[int], NoReturn], output: TextIO | None = None) -> NoReturn:
    """Writes the candidates to the output, or where the shell's script reads them."""
    if " -- " in os.environ["COMP_LINE"]:  # of `railhead exec`: the words of another command
        end(1)
    argcomplete.autocomplete(
        build_parser(),
        always_complete_options=False,
        exit_method=end,
        output_stream=output,
        append_space=output is None,
        default_completer=ValueCompleter(),
    )
    end(1)


class ValueCompleter(BaseCompleter):
    """Knows the values of options and arguments that have no fixed choices."""

    def __call__(
        self, *, prefix: str, action: argparse.Action, parsed_args: argparse.Namespace, **_: object
    ) -> Iterable[str]:
        if action.dest not in ("namespace", "rank") and action.type is not job_name:
            return FilesCompleter()(prefix)
        # A shell has no place for a message about a cluster that does not answer.
        with suppress(ClientError, TimeoutError, ModuleNotFoundError):
            return asyncio.run(_ask_cluster(action, parsed_args))
        return ()


async def _ask_cluster(action: argparse.Action, options: argparse.Namespace) -> list[str]:
    from railhead.client.cluster.connection import Target, explaining, open_cluster
    from railhead.client.cluster.rank_count import count_ranks
    from railhead.kube.client import Scope
    from railhead.kube.kinds import NAMESPACE, TRAIN_JOB

    target = Target(options.kubeconfig, options.context, options.namespace)
    async with asyncio.timeout(SECONDS), open_cluster(target) as cluster:
        if action.dest == "rank":
            if not options.name:
                return []
            _, ranks = count_ranks(await cluster.get_job(options.name))
            return list(map(str, range(ranks)))
        if action.dest == "namespace":
            scope = Scope(NAMESPACE)
        else:
            scope = Scope(TRAIN_JOB, cluster.namespace)
        with explaining(f"list {scope.kind.plural}"):
            listed = await cluster.client.list_each(scope, _read_name, metadata_only=True)
        given = getattr(options, "names", None) or []
        return [name for name in listed.items if name not in given]


def _read_name(each: Object) -> str:
    return str(each["metadata"]["name"])
