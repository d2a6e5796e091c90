"""Finds out what the unit tests do not notice: mutmut changes the pure core line by line, `make mutants` runs it.

A run takes a part of the files that changes from day to day, or what MUTANTS= says, and ends within an hour.
A mutant that no test kills is a survivor. It needs a test, or a row in `accepted_survivors.toml` that says why not.
Mutants that no unit test reaches are only counted: tests on a real API server may reach them.
"""

from __future__ import annotations

import argparse
import datetime
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
PACKAGE = Path("operator", "railhead")
TESTS = "tests/unit"
# The rooms that are changed, and the folders of TESTS that must notice it.
ROOMS = {"contract": ("contract", "planning"), "planning": ("planning",), "controller": ("controller",)}
ACCEPTED = Path(__file__).with_name("accepted_survivors.toml")
PARTS = 12  # so many days until each file had its turn
SECONDS = 3000  # for the mutants; the tests run twice before, and the report comes on top
MUTMUT = str(Path(sys.executable).with_name("mutmut"))
TIMED_OUT = 124  # the exit code of `timeout`
# mutmut knows modules below `src` only, so the copy calls the folder `operator` so.
SETTINGS = """
[tool.mutmut]
source_paths = ["src"]
only_mutate = {files}
also_copy = {others}
pytest_add_cli_args = ["-p", "no:cacheprovider", "-m", "not slow and not counts_calls"]
pytest_add_cli_args_test_selection = {tests}
"""


@dataclass(frozen=True, order=True)
class Survivor:
    """A changed line that no test noticed. It has no number of a line, which any edit above would change."""

    file: str  # below PACKAGE
    function: str
    old: str
    new: str

    @property
    def is_only_wording(self) -> bool:
        """Whether a text has only other letters, or XX around it: tests compare the words of messages that matter."""
        return self.new.replace("XX", "").casefold() == self.old.casefold()

    def __str__(self) -> str:
        return f"{self.file} {self.function}\n  - {self.old}\n  + {self.new}"


def choose(files: Sequence[str], wanted: str, today: datetime.date) -> list[str]:
    """Returns the files, below PACKAGE, that this run changes."""
    if not wanted:
        return list(files[today.toordinal() % PARTS :: PARTS])
    if wanted.startswith("changed"):
        base = wanted.partition(":")[2] or "origin/main"
        changed = _run("git", "diff", "--name-only", f"--relative={PACKAGE}", base, cwd=PROJECT).split()
        return [file for file in files if file in changed]
    return [file for file in files if any(word in file for word in wanted.split())]


def read_survivor(mutant: str, diff: str) -> Survivor:
    """Reads the name that mutmut gives a mutant, and the lines that `mutmut show` marks as removed and as added."""
    function = re.sub(r"^xǁ|^x_|__mutmut_\d+$", "", mutant.rpartition(".")[2]).replace("ǁ", ".")
    lines = [line for line in diff.splitlines() if not line.startswith(("---", "+++"))]
    return Survivor(find_file(mutant), function, _join(lines, "-"), _join(lines, "+"))


def find_file(mutant: str) -> str:
    return mutant.rpartition(".")[0].removeprefix(f"{PACKAGE.name}.").replace(".", "/") + ".py"


def compare(survivors: Iterable[Survivor], accepted: Iterable[Survivor], tested: Iterable[str]) -> list[str]:
    """Returns what is wrong: survivors that nobody accepted, and accepted ones that no longer survive."""
    found = set(survivors)
    known = {survivor for survivor in accepted if survivor.file in set(tested)}
    new = [f"survives: {survivor}" for survivor in sorted(found - set(accepted))]
    return new + [f"is accepted, but is killed or gone: {survivor}" for survivor in sorted(known - found)]


def read_accepted() -> dict[Survivor, str]:
    """Returns the reason of each survivor that needs no test."""
    rows = tomllib.loads(ACCEPTED.read_text())["survivor"]
    return {Survivor(row["file"], row["function"], row["old"], row["new"]): row["reason"] for row in rows}


def copy_checkout(files: Sequence[str], folder: Path) -> None:
    """Copies the checkout to where mutmut may write, and says there which files it changes."""
    ignored = shutil.ignore_patterns(".git", ".venv", "build", "__pycache__", ".*_cache")
    shutil.copytree(PROJECT, folder, ignore=ignored, dirs_exist_ok=True)
    (folder / PACKAGE.parts[0]).rename(folder / "src")
    (folder / PACKAGE.parts[0]).symlink_to("src")
    others = sorted(path.name for path in folder.iterdir() if path.name not in ("src", "tests"))
    mutated = [f"src/{PACKAGE.name}/{file}" for file in files]
    tests = sorted({f"{TESTS}/{name}" for file in files for name in ROOMS[Path(file).parts[0]]})
    with (folder / "pyproject.toml").open("a") as settings:
        settings.write(SETTINGS.format(files=mutated, others=others, tests=tests))


def run_mutmut(folder: Path) -> dict[str, str]:
    """Returns how each mutant ended: killed, survived, not checked (for lack of time), no tests (that reach it)."""
    limited = ("timeout", "--signal=INT", "--kill-after=60", str(SECONDS))
    with (folder / "mutmut.log").open("w+") as log:  # most of it is a spinner
        done = subprocess.run([*limited, MUTMUT, "run"], cwd=folder, env=_environment(), check=False, stdout=log)
        log.seek(0)
        if done.returncode not in (0, TIMED_OUT):
            raise SystemExit(f"{log.read()[-3000:]}\nthe tests fail without any mutant, or mutmut does")
    lines = _run(MUTMUT, "results", "--all", "true", cwd=folder).splitlines()
    return {mutant: end for mutant, _, end in (line.strip().partition(": ") for line in lines)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wanted", nargs="?", default="", help="`changed`, `changed:COMMIT`, or parts of files' names")
    options = parser.parse_args()
    paths = sorted(path for room in ROOMS for path in (PROJECT / PACKAGE / room).rglob("*.py"))
    names = [str(path.relative_to(PROJECT / PACKAGE)) for path in paths if path.name != "__init__.py"]
    files = choose(names, options.wanted, datetime.datetime.now(datetime.UTC).date())
    print("mutants of:", *files or ["nothing"], flush=True)
    if not files:
        return 0
    with tempfile.TemporaryDirectory(prefix="railhead-mutants-") as name:
        folder = Path(name)
        copy_checkout(files, folder)
        ends = run_mutmut(folder)
        survived = [mutant for mutant, end in ends.items() if end == "survived"]
        survivors = [read_survivor(mutant, _run(MUTMUT, "show", mutant, cwd=folder)) for mutant in survived]
    unfinished = {find_file(mutant) for mutant, end in ends.items() if end == "not checked"}
    survivors = [survivor for survivor in survivors if not survivor.is_only_wording]
    problems = compare(survivors, read_accepted(), set(files) - unfinished)
    counts = Counter(ends.values())
    print(*problems, ", ".join(f"{count} {end}" for end, count in sorted(counts.items())), sep="\n")
    return 0 if counts["killed"] and not problems else 1


def _join(lines: Iterable[str], mark: str) -> str:
    return re.sub(r"\s+", " ", " ".join(line[1:] for line in lines if line.startswith(mark))).strip()


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def _run(*command: str, cwd: Path) -> str:
    return subprocess.run(command, cwd=cwd, env=_environment(), check=True, text=True, stdout=subprocess.PIPE).stdout


if __name__ == "__main__":
    sys.exit(main())
