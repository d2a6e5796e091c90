"""`railhead completion`: the shell asks `railhead __complete` what the word at the cursor may become."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence

from railhead.cli.cluster_command import Subparsers

ASK = "__complete"
COMPLETION = "Print what makes a shell complete commands, options and values, for its start-up file."
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
    railhead {ASK} $words[2..-1] 2>/dev/null
end
complete -c railhead -a '(__railhead_complete)'""",
}


def add_commands(commands: Subparsers[argparse.ArgumentParser]) -> None:
    completion = commands.add_parser("completion", help=COMPLETION, description=COMPLETION)
    completion.add_argument("shell", metavar="SHELL", choices=tuple(SCRIPTS), help=", ".join(SCRIPTS))
    completion.set_defaults(run=print_script)


def print_script(options: argparse.Namespace) -> int:
    """Prints the script of the shell."""
    print(SCRIPTS[options.shell])
    return 0


def complete_for_kubectl() -> None:
    """Answers kubectl, which starts the program kubectl_complete-railhead; :0 says that files may follow."""
    from railhead.cli.main import build_parser

    print(*find_candidates(build_parser(), sys.argv[1:]), ":0", sep="\n")


def find_candidates(parser: argparse.ArgumentParser, words: Sequence[str]) -> list[str]:
    """Returns what the last word may become: commands, options, or the values of an option or argument."""
    *before, last = words or [""]
    values: argparse.Action | None = None  # of the option that waits for its value
    if "--" in before:
        return []
    for word in before:
        options, commands = _read(parser)
        if values is not None:
            values = None
        elif word in commands:
            parser = commands[word]
        elif word in options and options[word].nargs is None:
            values = options[word]
    options, commands = _read(parser)
    if values is not None:
        found = list(values.choices or ())
    elif last.startswith("-"):
        found = sorted(options)
    else:
        plain = [action.choices for action in parser._get_positional_actions() if action.choices and not commands]
        found = [*commands, *(each for choices in plain for each in choices)]
    return [each for each in found if each.startswith(last)]


def _read(
    parser: argparse.ArgumentParser,
) -> tuple[Mapping[str, argparse.Action], Mapping[str, argparse.ArgumentParser]]:
    """Returns the options of the parser and its commands, for both of which argparse has no public name."""
    commands = [action.choices for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return parser._option_string_actions, commands[0] if commands else {}
