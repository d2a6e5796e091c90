"""What of a spec may change after creation, and when: the CEL rules for it.

The API server evaluates all rules at each write of the status too. What that costs grows with the fields that a rule
reads: for each, the API server copies the schemas of all fields of the object. So a field that never changes has a
rule of its own, which reads no other. What may change while the job is suspended depends on the phase, which only the
root sees: one rule there compares all these fields, unless it sees at once that the write is one of the status.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from railhead.api.scaling import SAME_GPUS
from railhead.api.schema import RULES, Schema

# By the object that they are fields of: what may change at any time.
ALWAYS: dict[str, frozenset[str]] = {
    "": frozenset(
        {
            "suspend",
            "backoffLimit",
            "backoffResetSeconds",
            "noProgressLimit",
            "disruptionLimit",
            "failurePolicy",
            "activeDeadlineSeconds",
            "startDeadlineSeconds",
            "restartDeadlineSeconds",
            "partialStartDeadlineSeconds",
            "progressDeadlineSeconds",
            "hangPolicy",
            "metricPolicy",
            "keepPodsSeconds",
            "ttlSecondsAfterFinished",
        }
    ),
    ".scaling": frozenset({"desiredWorkers"}),
    ".scheduling": frozenset({"nodeAvoidance"}),
}
# And what may change in phase Suspended.
SUSPENDED: dict[str, frozenset[str]] = {
    "": frozenset(
        {
            "image",
            "imagePullPolicy",
            "imagePullSecrets",
            "env",
            "envFrom",
            "runtimeEnv",
            "podTemplate",
            "podUser",
            "childMetadata",
            "head",
            "worker",
            "ray",
            "logs",
        }
    ),
    ".trainer": frozenset({"trainLoopConfig"}),
    ".scaling": frozenset({"resourcesPerWorker", "acceleratorType", "rayLabelSelector"}),
    ".scheduling": frozenset({"gangScheduler", "priorityClassName", "queueName", "topology"}),
}
NONE: frozenset[str] = frozenset()
# GitOps tools look for the first three words. A job of another name may resume from this one.
IMMUTABLE = "field is immutable; create another TrainJob with resumeFrom instead"
ONLY_SUSPENDED = "can change only while the job is suspended"
WAIT = "set spec.suspend to true and wait for phase Suspended; the change itself may set it to false again"
_IS_SUSPENDED = "oldSelf.?status.?phase.orValue('') in ['Suspended', 'Queued']"
# The API server takes the spec of a status write, and the status of any other write, from the stored object. One of
# these three differs at nearly every status write, and to compare them costs less than to compare all of the spec.
_IS_STATUS_WRITE = (
    "(has(self.status) && has(oldSelf.status) && "
    "(self.status.?progress.?updateTime != oldSelf.status.?progress.?updateTime || "
    "(has(self.status.phase) && has(oldSelf.status.phase) && self.status.phase != oldSelf.status.phase) || "
    "self.status.?workers.?ready != oldSelf.status.?workers.?ready))"
)


def add_rules_of_changes(root: Schema) -> None:
    """Completes the rules of a TrainJob with what may change."""
    spec = root["properties"]["spec"]
    root[RULES] += [_build_wait(spec), _build_check(spec)]
    _add_immutability(spec)
    _check_at_creation(spec)


def _is_required(schema: Schema, field: str) -> bool:
    return field in schema.get("required", []) or "default" in schema["properties"][field]


def _add_immutability(schema: Schema, *, path: str = "") -> None:
    """Adds rules by which the value and the presence of the other fields must not change after creation."""
    for field, inner in schema["properties"].items():
        here = f"{path}.{field}"
        if field in ALWAYS.get(path, NONE) | SUSPENDED.get(path, NONE):
            continue
        if here in ALWAYS.keys() | SUSPENDED.keys():
            _add_immutability(inner, path=here)
            continue
        message = f"{here[1:]}: {IMMUTABLE}"
        inner.setdefault(RULES, []).append({"rule": "self == oldSelf", "message": message})
        if not _is_required(schema, field):
            rule = f"has(self.{field}) == has(oldSelf.{field})"
            schema.setdefault(RULES, []).append({"rule": rule, "message": message, "fieldPath": f".{field}"})


def _check_at_creation(schema: Schema, *, path: str = "") -> None:
    """Rules about what cannot change later are only evaluated when it is created, not at each write of the status."""
    always = ALWAYS.get(path, NONE)
    suspended = SUSPENDED.get(path, NONE)
    for check in schema.get(RULES, []):
        if "oldSelf" not in check["rule"] and not _reads(check["rule"], always):
            _guard(check, "oldSelf.hasValue()")
    for field, inner in schema.get("properties", {}).items():
        if field in suspended:
            inner["description"] += " Can change while the job is suspended."
            _check_at_change(inner)
        elif field not in always:
            _check_at_creation(inner, path=f"{path}.{field}")
    for inner in _list_items(schema):
        _check_at_creation(inner, path=f"{path}[]")


def _check_at_change(schema: Schema) -> None:
    """Rules are evaluated when the value changes; those of objects always, since comparing these costs more."""
    if "properties" not in schema:
        for check in schema.get(RULES, []):
            _guard(check, "(oldSelf.hasValue() && self == oldSelf.value())")
    for inner in (*schema.get("properties", {}).values(), *_list_items(schema)):
        _check_at_change(inner)


def _list_items(schema: Schema) -> Iterator[Schema]:
    """Yields what the values of a map and the items of a list must be; items of other lists than maps have no
    oldSelf."""
    if isinstance(schema.get("additionalProperties"), dict):
        yield schema["additionalProperties"]
    if schema.get("x-kubernetes-list-type") == "map":
        yield schema["items"]


def _guard(check: Schema, unless: str) -> None:
    check.update(rule=f"{unless} || ({check['rule']})", optionalOldSelf=True)


def _reads(rule: str, fields: frozenset[str]) -> bool:
    return any(re.search(rf"\.{field}\b", rule) for field in fields)


def _build_wait(spec: Schema) -> Schema:
    """Compares what may change in phase Suspended only."""
    same = {}
    for path, fields in SUSPENDED.items():
        for field in (name for name in _find(spec, path)["properties"] if name in fields):
            same[f"spec{path}.{field}"] = _build_same(spec, path, field)
    changed = " + ".join(f"({is_same} ? '' : ' {field}')" for field, is_same in same.items())
    return {
        "rule": f"{_IS_STATUS_WRITE} || {_IS_SUSPENDED} || ({' && '.join(same.values())})",
        "message": f"most fields {ONLY_SUSPENDED}: {WAIT}",
        "messageExpression": f"'{ONLY_SUSPENDED}:' + {changed} + '; {WAIT}'",
        "fieldPath": ".spec",
    }


def _build_same(spec: Schema, path: str, field: str) -> str:
    """Returns whether the field is as before, in CEL. With an object that may be absent, the field's default is
    absent too."""
    parent = _find(spec, path)
    if path and not _is_required(spec, path[1:]):
        if "default" not in parent["properties"][field]:
            new = f"self.spec{path}"
            old = f"oldSelf.spec{path}"
            is_set, was_set = (f"has({each}) && has({each}.{field})" for each in (new, old))
            return f"({is_set} ? {was_set} && {new}.{field} == {old}.{field} : !({was_set}))"
        default = parent["properties"][field]["default"]
        values = (f"(has({who}.spec{path}) ? {who}.spec{path}.{field} : '{default}')" for who in ("self", "oldSelf"))
        return " == ".join(values)
    new = f"self.spec{path}.{field}"
    old = f"oldSelf.spec{path}.{field}"
    if _is_required(parent, field):
        return f"{new} == {old}"
    return f"(has({new}) ? has({old}) && {new} == {old} : !has({old}))"


def _build_check(spec: Schema) -> Schema:
    """Judges a change in phase Suspended by the rules of creation that read several fields."""
    # Pairs of a rule and what to say if it does not hold.
    allowed = []
    for path, own in SUSPENDED.items():
        # a rule of the spec may read fields of its objects
        if path:
            fields = own
        else:
            fields = own.union(*SUSPENDED.values())
        checks = [check for check in _find(spec, path).get(RULES, []) if _reads(check["rule"], fields)]
        for check in (*checks, SAME_GPUS) if path == ".scaling" else checks:
            text = f"spec{path}{check.get('fieldPath', '')}: {check['message']}"
            allowed.append((re.sub(r"\b(self|oldSelf)\.", rf"\1.spec{path}.", check["rule"]), text))
    rules = " && ".join(f"({rule})" for rule, _ in allowed)
    first = " : ".join(f"!({rule}) ? {text!r}" for rule, text in allowed)
    return {
        "rule": f"!({_IS_SUSPENDED}) || self.status != oldSelf.status || ({rules})",
        "message": "the changed fields do not fit together",
        "messageExpression": f"{first} : ''",
        "fieldPath": ".spec",
    }


def _find(spec: Schema, path: str) -> Schema:
    found: Schema = spec["properties"][path[1:]] if path else spec
    return found
