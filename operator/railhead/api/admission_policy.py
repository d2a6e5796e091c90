"""The restrictions as the API server checks them: `python -m railhead.api.admission_policy FILE [--check]`.

Writes the parts of the chart's ValidatingAdmissionPolicy that do not depend on values. The chart adds the variables
`isRestricted` and, for each kind of named objects, a list of names.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import yaml

from railhead.api.restrictions import (
    ACCOUNT_RULES,
    ADVICE,
    ANY,
    CONTAINER_LISTS,
    DEFAULT_ACCOUNT,
    FIELDS,
    NO_ACCOUNT,
    RULES,
    TEMPLATES,
    Named,
    Rule,
    Scope,
    Test,
    Without,
)

HEADER = "# Generated from operator/railhead/api by `make generate`; do not edit.\n"
SCOPES: tuple[Scope, ...] = ("job", "templates", "pods", "containers", "volumes")
# An update is checked only where a rule looks: a job from before the restrictions can be suspended and deleted.
CHANGED = (
    f"oldObject == null || {json.dumps(FIELDS)}.exists(f, (f in object.spec) != (f in oldObject.spec) || "
    "(f in object.spec && object.spec[f] != oldObject.spec[f]))"
)


def _bodies(scope: Scope) -> str:
    """A list with the objects of the scope, and where they are."""
    if scope == "job":
        return _body('"spec"', "object.spec")
    lists = {"containers": CONTAINER_LISTS, "volumes": ("volumes",)}.get(scope)
    parts = []
    for path in TEMPLATES:
        steps = path if scope == "templates" else (*path, "spec")
        for key in lists or ("",):
            at = ".".join(("spec", *steps, *([key] if key else [])))
            each = f'.map(x, {{"at": dyn("{at}[" + x.name + "]"), "body": dyn(x)}})' if key else ""
            found = f"object.{at}{each}" if key else _body(f'"{at}"', f"object.{at}")
            parts.append(f"({_has(at)} ? {found} : [])")
    return " + ".join(parts)


def _body(at: str, body: str) -> str:
    return f'[{{"at": dyn({at}), "body": dyn({body})}}]'


def _has(at: str) -> str:
    """The field and all that it is in are there, and not null."""
    steps = at.split(".")
    found = [".".join(("object", *steps[:end])) for end in range(2, len(steps) + 1)]
    return " && ".join(f"has({each}) && {each} != null" for each in found)


def _refusals(rules: tuple[Rule, ...]) -> str:
    """A list with the text of each refusal."""
    parts = []
    for rule in rules:
        text = json.dumps(f".{rule.path}: {rule.test.describe()}")
        refused = _is_refused("x.body", rule.path.split("."), rule.test)
        parts.append(f"variables.{rule.scope}.filter(x, {refused}).map(x, string(x.at) + {text}{_names(rule.test)})")
    return " + ".join(parts)


def _names(test: Test) -> str:
    return f' + ": [" + variables.{test.kind}.join(", ") + "]"' if isinstance(test, Named) else ""


def _is_refused(value: str, path: list[str], test: Test) -> str:
    if not path:
        return _fails(value, test)
    step, rest = path[0], path[1:]
    if step == "*":
        return f"{value}.exists(k, {_fails('k', test)})"
    found = f"{value}.{step.removesuffix('[]')}"
    if step.endswith("[]"):
        item = f"i{value.count('.')}"
        return f"has({found}) && {found} != null && {found}.exists({item}, {_is_refused(item, rest, test)})"
    is_object = f" && {found} != null" if rest else ""
    return f"has({found}){is_object} && {_is_refused(found, rest, test)}"


def _fails(value: str, test: Test) -> str:
    if isinstance(test, Named):
        names = f"variables.{test.kind}"
        return f'!("{ANY}" in {names} || {value} in {names})'
    if isinstance(test, Without):
        return f'{value}.startsWith("{test.prefix}")'
    return f"!({value} in {json.dumps(test.values)})" if test.values else "true"


def _no_account() -> str:
    """A list with a refusal if a pod runs as `default`, and jobs may not use it."""
    names = "variables.serviceAccounts"
    shared, head, worker = (_has(".".join(("spec", *path, "spec", "serviceAccountName"))) for path in TEMPLATES)
    is_named = f'"{ANY}" in {names} || "{DEFAULT_ACCOUNT}" in {names} || ({shared}) || ({head} && {worker})'
    return f"({is_named} ? [] : [{json.dumps(NO_ACCOUNT)}{_names(Named('serviceAccounts'))}])"


def build_policy() -> dict[str, Any]:
    """Parts of the policy's spec."""
    others = {scope: tuple(r for r in RULES if r.scope == scope and r not in ACCOUNT_RULES) for scope in SCOPES}
    variables = {
        **{scope: _bodies(scope) for scope in SCOPES},
        "accountRefusals": f"{_no_account()} + {_refusals(ACCOUNT_RULES)}",
        **{f"{scope}Refusals": _refusals(rules) for scope, rules in others.items()},
        "refusals": "variables.accountRefusals + (variables.isRestricted ? "
        + " + ".join(f"variables.{scope}Refusals" for scope in SCOPES)
        + " : [])",
    }
    return {
        "matchConditions": [{"name": "checked-fields", "expression": CHANGED}],
        "variables": [{"name": name, "expression": expression} for name, expression in variables.items()],
        "validations": [
            {
                "expression": "size(variables.refusals) == 0",
                "messageExpression": f'variables.refusals.join("; ") + {json.dumps(ADVICE)}',
                "message": f"the job is not allowed here{ADVICE}",  # where the other one would be too long
                "reason": "Forbidden",
            }
        ],
    }


def render() -> str:
    return HEADER + str(yaml.safe_dump(build_policy(), sort_keys=False, width=120))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Writes the policy's parts, or checks that the file is up to date.")
    parser.add_argument("file", type=Path)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args(arguments)
    text = render()
    if not options.check:
        options.file.write_text(text)
    elif options.file.read_text() != text:
        print(f"{options.file} is stale: run `make generate`", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
