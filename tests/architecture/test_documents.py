"""The links, tests, make targets, fields and examples named in the documents exist."""

from __future__ import annotations

import argparse
import json
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.architecture.counted_claims import CLAIMS, find_numbers
from tools.reference import describe_type

from railhead.api.changes import ALWAYS, SUSPENDED
from railhead.api.parsed_spec import parse_spec
from railhead.cli import operator
from railhead.contract.failure import POLICIES

PROJECT = Path(__file__).resolve().parents[2]
CRD = PROJECT / "crds" / "railhead.dev_trainjobs.yaml"
DOCS = PROJECT / "docs"
SOURCES = ("operator", "tests", "tools", "benchmarks")
SPEC, STATUS_PAGE = DOCS / "reference" / "spec.md", DOCS / "reference" / "status.md"
TOP = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
DOCUMENTS = sorted(
    [
        *(PROJECT / name for name in TOP),
        *(p for name in ("charts", "docs", "manifests") for p in PROJECT.glob(f"{name}/**/*.md")),
    ]
)
# Fields that Kubernetes documents.
FOREIGN = re.compile(r"(podTemplate|\.valueFrom|\.configMapRef|\.secretRef)\.")

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
NO_TEST = "*no test*"  # at the end of what happens, where no test tries it
TEST = re.compile(r"\b(tests/[\w/]+\.py)(?:::(\w+))?")
MAKE = re.compile(r"(?:^|`|\$ )make (?:-\S+ )*([a-z][a-z0-9-]*(?:\.txt)?)", re.MULTILINE)
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)
ROW = re.compile(r"^\| `((?:spec|status)\.[^`]+)` \| ([^|]*) \| ([^|]*) \|", re.MULTILINE)
BOUNDS = re.compile(r"^\| `(spec\.[^`]+)` \| [^|]* \| [^|]* \| ([^|]*) \|", re.MULTILINE)
STATUS = re.compile(r"^\| `(status\.[^`]+)` \| (?:list|map) \| (.*) \|$", re.MULTILINE)
# Their bounds are other fields, or the names that they may have.
BOUND_BY_OTHERS = {"spec.scaling.maxWorkers", "spec.scaling.desiredWorkers", "spec.scaling.gpuResourceName"}
FLAG = re.compile(r"^\| `(--[a-z-]+)` \|", re.MULTILINE)

per_document = pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: str(p.relative_to(PROJECT)))


@per_document
def test_links_point_to_existing_files(path: Path) -> None:
    targets = (link.partition("#")[0] for link in LINK.findall(path.read_text()) if "://" not in link)
    missing = [target for target in targets if target and not (path.parent / target).exists()]
    assert not missing


@cache
def find_anchors(path: Path) -> set[str]:
    """What GitHub makes of a document's headings."""
    anchors: set[str] = set()
    for heading in HEADING.findall(FENCE.sub("", path.read_text())):
        text = LINK.sub(lambda link: link[0].partition("]")[0], heading).lower()
        anchor = re.sub(r"[^\w -]", "", text).replace(" ", "-")
        same = sum(re.fullmatch(rf"{re.escape(anchor)}(?:-\d+)?", each) is not None for each in anchors)
        anchors.add(f"{anchor}-{same}" if same else anchor)
    return anchors


@per_document
def test_anchors_are_headings(path: Path) -> None:
    dead = []
    for link in LINK.findall(path.read_text()):
        target, _, anchor = link.partition("#")
        file = path.parent / target if target else path
        if anchor and "://" not in link and file.suffix == ".md" and anchor not in find_anchors(file):
            dead.append(link)
    assert not dead


@pytest.mark.parametrize(("claim", "number"), CLAIMS)
def test_a_counted_claim_is_what_the_code_counts(claim: str, number: float | str) -> None:
    texts = {str(path.relative_to(PROJECT)): path.read_text() for path in DOCUMENTS}
    stated = {(name, found) for name, text in texts.items() for found in find_numbers(claim, text)}
    assert stated, "no document makes this claim any more; remove it from counted_claims.py"
    assert {(name, found) for name, found in stated if found != number} == set()


@per_document
def test_rows_of_tables_are_closed(path: Path) -> None:
    rows = [line for line in FENCE.sub("", path.read_text()).splitlines() if line.startswith("| ")]
    assert [row for row in rows if not row.rstrip().endswith("|")] == []


@per_document
def test_named_tests_exist(path: Path) -> None:
    missing = []
    for file, name in TEST.findall(path.read_text()):
        text = (PROJECT / file).read_text() if (PROJECT / file).is_file() else None
        if text is None or (name and not re.search(rf"^(?:async )?def {name}\(", text, re.MULTILINE)):
            missing.append(f"{file}::{name}")
    assert not missing


def find_threats(page: str) -> list[tuple[str, str]]:
    """Returns the rows of a page's table of threats: the threat, and the other cell."""
    section = (DOCS / page).read_text().partition("## Threats")[2].partition("\n## ")[0]
    _, _, *rows = [line.strip("| ").partition(" | ") for line in section.splitlines() if line.startswith("|")]
    return [(threat, other) for threat, _, other in rows]


@pytest.mark.parametrize("path", sorted((DOCS / "internals").glob("*.md")), ids=lambda path: path.name)
def test_files_that_internals_name_exist(path: Path) -> None:
    named = re.findall(r"`([a-z_/]+\.py)`", path.read_text())
    files = [f"/{file.relative_to(PROJECT)}" for folder in SOURCES for file in (PROJECT / folder).rglob("*.py")]
    assert [name for name in named if not any(file.endswith(f"/{name}") for file in files)] == []


def test_the_walks_through_the_code_name_what_exists() -> None:
    """Each stop of a walk is a file, and names in it; a walk has at most twelve stops."""
    section = (DOCS / "internals" / "architecture.md").read_text().partition("## Two walks")[2].partition("\n## ")[0]
    stops = [line for line in section.splitlines() if re.match(r"\d+\. ", line)]
    assert [line.partition(".")[0] for line in stops] == [str(number) for _ in range(2) for number in range(1, 13)]
    missing = []
    for stop in stops:
        for file, names in re.findall(r"`([a-z_/]+\.py)`: ([^;]+)", stop):
            text = (PROJECT / "operator" / "railhead" / file).read_text()
            for name in re.findall(r"`([A-Za-z_]+)`", names):
                if not re.search(rf"\b(?:def|class) {name}\b", text):
                    missing.append(f"{file}: {name}")
    assert not missing


def test_each_threat_has_its_tests_or_the_mark_that_it_has_none() -> None:
    threats = find_threats("operate/security.md")
    promises = find_threats("internals/promises.md")
    assert len(threats) > 10
    tested = [threat for threat, what_happens in threats if not what_happens.endswith(NO_TEST)]
    assert [threat for threat, _ in promises] == tested, "a row of the page without a test ends with the mark"
    assert [threat for threat, tests in promises if not TEST.search(tests)] == []


def test_pages_for_users_name_no_tests() -> None:
    """docs/internals/promises.md has the tests of what these pages promise."""
    pages = [path for path in DOCS.rglob("*.md") if not path.is_relative_to(DOCS / "internals")]
    assert [(path.name, file) for path in pages for file, _ in TEST.findall(path.read_text())] == []


@cache
def find_make_targets() -> set[str]:
    targets = set(re.findall(r"^([a-z][a-z0-9.-]*):", (PROJECT / "Makefile").read_text(), re.MULTILINE))
    # The rule bench-% runs each program of benchmarks.
    programs = [file for file in (PROJECT / "benchmarks").glob("**/*.py") if "__main__" in file.read_text() + file.stem]
    names = (file.parent.name if file.stem == "__main__" else file.stem for file in programs)
    return targets | {f"bench-{name.replace('_', '-')}" for name in names}


@per_document
def test_named_make_targets_exist(path: Path) -> None:
    assert set(MAKE.findall(path.read_text())) <= find_make_targets()


@per_document
def test_example_train_jobs_are_valid(path: Path) -> None:
    for language, text in FENCE.findall(path.read_text()):
        documents = yaml.load_all(text, yaml.CSafeLoader) if language == "yaml" else ()
        for document in documents:
            if isinstance(document, dict) and document.get("kind") == "TrainJob":
                parse_spec(document["spec"], name=document["metadata"]["name"])


def walk(node: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every field below a schema, with its path; `[]` stands for an item of a list, `<name>` for a key of a map."""
    for name, field in (node.get("properties") or {}).items():
        yield f"{path}.{name}", field
        yield from walk(field, f"{path}.{name}")
        if isinstance(field.get("items"), dict):
            yield from walk(field["items"], f"{path}.{name}[]")
        if isinstance(field.get("additionalProperties"), dict):
            yield from walk(field["additionalProperties"], f"{path}.{name}.<name>")


@cache
def fields() -> dict[str, dict[str, Any]]:
    """The CRD's own fields by their path."""
    schema = yaml.load(CRD.read_text(), yaml.CSafeLoader)["spec"]["versions"][0]["schema"]["openAPIV3Schema"][
        "properties"
    ]
    found = {path: field for part in ("spec", "status") for path, field in walk(schema[part], part)}
    return {path: field for path, field in found.items() if not FOREIGN.search(path)}


def test_the_reference_lists_exactly_the_crds_fields() -> None:
    named = [path for page in (SPEC, STATUS_PAGE) for path, _, _ in ROW.findall(page.read_text())]
    assert sorted(named) == sorted(fields())


def test_the_reference_has_the_right_types_and_defaults() -> None:
    known = fields()
    wrong = []
    for path, type_, default in ROW.findall(SPEC.read_text() + STATUS_PAGE.read_text()):
        field = known[path]
        if type_.strip() != describe_type(field):
            wrong.append(f"{path} is {describe_type(field)}")
        if path.startswith("spec.") and "default" in field and default.strip() not in describe_default(field):
            wrong.append(f"{path}: the default is {field['default']}")
    assert not wrong


def test_the_reference_lists_what_can_change_and_when() -> None:
    text = (DOCS / "how-to" / "change-a-job.md").read_text()
    for when, allowed in (("at any time", ALWAYS), ("in phase Suspended", SUSPENDED)):
        [row] = re.findall(rf"^\| (`.*`.*) \| {when} \|$", text, re.MULTILINE)
        named = set(re.findall(r"`([^`]+)`", row))
        assert named == {f"{path}.{name}".removeprefix(".") for path, names in allowed.items() for name in names}


def find_bounds(field: dict[str, Any]) -> list[str]:
    """What the column Bounds must contain."""
    if field.get("x-kubernetes-int-or-string"):
        return []
    if "enum" in field:
        return [f"`{value}`" for value in field["enum"]]
    bounds = [str(field[name]) for name in ("maxItems", "maxProperties", "maxLength") if name in field]
    return [*bounds, f"{field['minimum']} to {field['maximum']}"] if {"minimum", "maximum"} <= set(field) else bounds


def test_the_reference_has_the_right_bounds() -> None:
    known = fields()
    wrong = []
    for path, stated in BOUNDS.findall(SPEC.read_text()):
        for bound in find_bounds(known[path]) if path not in BOUND_BY_OTHERS else ():
            if not re.search(rf"(?<!\d){re.escape(bound)}(?!\d)", stated):
                wrong.append(f"{path}: {bound}")
    assert not wrong


def test_the_reference_has_the_right_sizes_of_lists_in_the_status() -> None:
    known = fields()
    wrong = []
    for path, meaning in STATUS.findall(STATUS_PAGE.read_text()):
        most = known[path].get("maxItems", known[path].get("maxProperties"))
        for pair in re.findall(r"\b(?:at most|first|last) (\d+)\b|\b(\d+) at most", meaning):
            if "".join(pair) != str(most):
                wrong.append(f"{path}: {''.join(pair)} is {most}")
    assert not wrong


def describe_default(field: dict[str, Any]) -> tuple[str, ...]:
    """The default as the reference may write it; for an object, its fields have the defaults."""
    default = field["default"]
    if isinstance(default, dict) and default:
        return ("see below",)
    return (f"`{default if isinstance(default, str) else json.dumps(default)}`",)


def test_the_operators_flags_are_documented() -> None:
    parser = argparse.ArgumentParser(add_help=False)
    operator.add_arguments(parser)
    flags = {flag for action in parser._actions for flag in action.option_strings}
    assert set(FLAG.findall((DOCS / "reference" / "operator-flags.md").read_text())) == flags


def committable() -> list[Path]:
    """Files that are, or would be, part of a commit."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    paths = done.stdout.splitlines() if done.returncode == 0 else [str(p) for p in DOCUMENTS]
    return [PROJECT / path for path in paths if (PROJECT / path).is_file()]


def test_no_file_names_a_local_path_or_a_package_index() -> None:
    # Concatenated, so that this file contains none of them.
    paths = ["/wor" + "k/", "/ro" + "ot/"]
    hosts = ["pypi" + ".org", "files.python" + "hosted.org", "proxy.go" + "lang.org", "registry.npm" + "js.org"]
    hosts += [f"{prefix}docker" + ".io" for prefix in ("registry-1.", "index.", "//")]
    found = []
    for path in committable():
        text = path.read_text(errors="replace")
        found += [f"{path.relative_to(PROJECT)}: {name}" for name in (*paths, *hosts) if name in text]
    assert not found


def test_the_table_of_failure_classes_matches_the_code() -> None:
    rows = re.findall(
        r"^\| ([A-Z]\w+) \| (\d+|\u2013)[^|]* \|", (DOCS / "concepts" / "failures.md").read_text(), re.MULTILINE
    )
    codes = {str(kind): str(policy.exit_code or "\u2013") for kind, policy in POLICIES.items()}
    assert dict(rows) == codes
    assert len(rows) == len(codes)
