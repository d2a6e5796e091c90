"""`railhead completion`: the shell asks `railhead __complete` what the word at the cursor may become.

The names of jobs and namespaces, and the ranks of a job, come from the cluster.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from railhead.cli.output import prepare_output
from railhead.cli.parser import build_parser, job_name
from railhead.client.exit_codes import ClientError

ASK = "__complete"
SECONDS = 3.0  # for the cluster's answer; a shell shows nothing meanwhile
# A word without candidates is completed as the name of a file.
SCRIPTS = {
    "bash": f"""\
_railhead() {{
    local IFS=$'\\n'
    COMPREPLY=($(railhead {ASK} "${{COMP_WORDS[@]:1:COMP_CWORD}}" 2>/dev/null))
}}
complete -o default -F _railhead railhead""",
    "zsh": f"""\
_railhead() {{
    local -a found
    found=(${{(f)"$(railhead {ASK} "${{(@)words[2,CURRENT]}}" 2>/dev/null)"}})
    if (( $#found )); then compadd -- $found; else _files; fi
}}
compdef _railhead railhead""",
    "fish": f"""\
function __railhead_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l found (railhead {ASK} $words[2..-1] 2>/dev/null)
    if set -q found[1]
        string join \\n -- $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c railhead -f -a '(__railhead_complete)'""",
}


def do_completion(options: argparse.Namespace) -> int:
    """Prints the script of the shell."""
    print(SCRIPTS[options.shell])
    return 0


def complete_for_shell(words: Sequence[str]) -> None:
    """Prints what the last word may become, of which a value after = is a part."""
    option, mark, _ = words[-1].partition("=") if words else ("", "", "")
    before = option + mark if mark and option.startswith("-") else ""
    for each in find_candidates(build_parser(), words, ask_cluster):
        print(before + each)


def complete_for_kubectl() -> None:
    """Answers kubectl, which starts the program kubectl_complete-railhead, and writes the option before a value after
    = itself; :0 says that files may follow."""
    prepare_output()
    print(*find_candidates(build_parser(), sys.argv[1:], ask_cluster), ":0", sep="\n")


@dataclass
class Words:
    """The words before the cursor.

    Attributes:
        parser: of the command.
        option: waits for its value.
        given: the values of options, by their attributes of the parsed options.
        arguments: the words that belong to no option.
    """

    parser: argparse.ArgumentParser
    option: argparse.Action | None = None
    given: dict[str, str] = field(default_factory=dict)
    arguments: list[str] = field(default_factory=list)

    def take(self, word: str) -> None:
        options, commands = _read(self.parser)
        option, mark, value = word.partition("=")
        if self.option is not None:
            if word != "=":
                self.given[self.option.dest] = word
                self.option = None
        elif mark and option in options:
            self.given[options[option].dest] = value
        elif word in commands:
            self.parser = commands[word]
        elif word in options:
            self.option = options[word] if options[word].nargs is None else None
        else:
            self.arguments.append(word)

    def find_argument(self) -> argparse.Action | None:
        """Returns what the next word without an option is for."""
        actions = self.parser._get_positional_actions()
        if len(self.arguments) < len(actions):
            return actions[len(self.arguments)]
        if actions and actions[-1].nargs in ("*", "+"):
            return actions[-1]
        return None


def find_candidates(
    parser: argparse.ArgumentParser, words: Sequence[str], ask: Callable[[argparse.Action, Words], Iterable[str]]
) -> list[str]:
    """Returns what the last word may become: commands, options, or the values of an option or argument.

    `ask` returns the values that only the cluster knows.
    """
    *before, last = words or [""]
    if "--" in before:
        return []
    known = Words(parser)
    for word in before:
        known.take(word)
    options, commands = _read(known.parser)
    option, mark, value = last.partition("=")
    if mark and option in options:
        known.option = options[option]
        last = value
    elif last == "=":  # bash divides words there
        last = ""
    action = known.option or known.find_argument()
    if known.option is None and last.startswith("-"):
        found: Iterable[str] = sorted(options)
    elif known.option is None and commands:
        found = commands
    elif action is not None:
        found = action.choices or ask(action, known)
    else:
        found = ()
    return [each for each in found if each.startswith(last) and each not in known.arguments]


def ask_cluster(action: argparse.Action, words: Words) -> list[str]:
    """Returns the names or ranks that are possible; none if the cluster does not answer, for which a shell has no
    message."""
    is_rank = action.dest == "rank" and len(words.arguments) == 1
    if not is_rank and action.dest != "namespace" and action.type is not job_name:
        return []
    with suppress(ClientError, TimeoutError, ModuleNotFoundError):
        return asyncio.run(_ask(action, words))
    return []


async def _ask(action: argparse.Action, words: Words) -> list[str]:
    from railhead.client.cluster.connection import Target, explaining, open_cluster
    from railhead.client.cluster.rank_count import count_ranks
    from railhead.kube.client import Scope
    from railhead.kube.kinds import NAMESPACE, TRAIN_JOB

    target = Target(words.given.get("kubeconfig"), words.given.get("context"), words.given.get("namespace"))
    async with asyncio.timeout(SECONDS), open_cluster(target) as cluster:
        if action.dest == "rank":
            _, ranks = count_ranks(await cluster.get_job(words.arguments[0]))
            return list(map(str, range(ranks)))
        if action.type is job_name:
            scope = Scope(TRAIN_JOB, cluster.namespace)
        else:
            scope = Scope(NAMESPACE)
        with explaining(f"list {scope.kind.plural}"):
            listed = await cluster.client.list_each(scope, lambda each: each["metadata"]["name"], metadata_only=True)
            return [str(name) for name in listed.items]


def _read(
    parser: argparse.ArgumentParser,
) -> tuple[Mapping[str, argparse.Action], Mapping[str, argparse.ArgumentParser]]:
    """Returns the options of the parser and its commands, for both of which argparse has no public name."""
    commands = [action.choices for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return parser._option_string_actions, commands[0] if commands else {}
