"""Changes of a TrainJob as values: `--set path=value`, and the job that `retry` creates. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

import yaml

from railhead.api import names
from railhead.api.status import parse_status
from railhead.client.exit_codes import ClientError, ExitCode
from railhead.json_object import Object, part

RETRY_OF = f"{names.GROUP}/retry-of"  # annotation
# Labels and annotations by which a tool recognises its own objects: it would delete the new job, or `submit` would take
# it for the one that it created.
_OF_TOOLS = re.compile(
    r"^(app\.kubernetes\.io/(instance|managed-by)|argocd\.argoproj\.io/.*|.*\.toolkit\.fluxcd\.io/.*|helm\.sh/.*"
    r"|meta\.helm\.sh/.*|kubectl\.kubernetes\.io/.*|velero\.io/.*|railhead\.dev/(content|code-pending))$"
)
_OTHER_THAN_KUBECTL = frozenset(f"tag:yaml.org,2002:{name}" for name in ("timestamp", "int", "float"))
_STEP = re.compile(r'"([^"]+)"|([^."]+)')


class JSONLoader(yaml.SafeLoader):
    """Reads YAML into JSON's types, as kubectl does: 1e-3 is a number, and 2026-11-25 or 12:30 a text.

    PyYAML follows YAML 1.1, for which 1e-3 is a text, 2026-11-25 a date, and 12:30 the number 750.
    """

    yaml_implicit_resolvers = {
        start: [(tag, pattern) for tag, pattern in found if tag not in _OTHER_THAN_KUBECTL]
        for start, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


JSONLoader.add_implicit_resolver(
    "tag:yaml.org,2002:int",
    re.compile(r"^[-+]?(0b[01_]+|0[0-7_]*|[1-9][0-9_]*|0x[0-9a-fA-F_]+)$"),
    list("-+0123456789"),
)
JSONLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^([-+]?(\.[0-9]+|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$"),
    list("-+0123456789."),
)


def parse_changes(texts: Iterable[str]) -> Object:
    """Returns the changes of the spec as one object to merge into it.

    A text is PATH=VALUE: the path with or without "spec.", a key with dots in double quotes, and the value in YAML, so
    that `null` removes the field.

    Raises:
        ClientError: a text is not of that form, or two texts contradict each other.
    """
    changes: Object = {}
    for text in texts:
        path, sign, raw = text.partition("=")
        steps = [quoted or plain for quoted, plain in _STEP.findall(path.removeprefix("spec."))]
        if not sign or not steps:
            raise ClientError(f"--set {text}: write it as PATH=VALUE, for example image=IMAGE", ExitCode.USAGE)
        try:
            value = yaml.load(raw, JSONLoader)
        except yaml.YAMLError:
            raise ClientError(f"--set {text}: the value is not YAML; put it in quotes", ExitCode.USAGE) from None
        here = changes
        for step in steps[:-1]:
            here = here.setdefault(step, {})
            if not isinstance(here, dict):
                raise ClientError(f"--set {text}: another --set gives {step} a value already", ExitCode.USAGE)
        here[steps[-1]] = value
    return changes


def parse_config(texts: Iterable[str]) -> Object:
    """Returns the change of the spec that adds these entries to trainer.trainLoopConfig.

    A text is KEY=VALUE, with the value in YAML: `lr=0.05` is a number, `name=cnn` a text, and `layers=[1, 2]` a list.

    Raises:
        ClientError: a text is not of that form.
    """
    config: Object = {}
    for text in texts:
        key, sign, raw = text.partition("=")
        if not sign or not key:
            raise ClientError(f"--config {text}: write it as KEY=VALUE, for example lr=0.05", ExitCode.USAGE)
        try:
            config[key] = yaml.load(raw, JSONLoader)
        except yaml.YAMLError:
            message = f"--config {text}: the value is not YAML; put it in double quotes inside of single ones"
            raise ClientError(message, ExitCode.USAGE) from None
    if not config:
        return {}
    return {"trainer": {"trainLoopConfig": config}}


def merge(base: Object, changes: Object) -> Object:
    """Returns the base with the changes merged into it, as a JSON Merge Patch (RFC 7386)."""
    merged = dict(base)
    for key, value in changes.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, dict):
            merged[key] = merge(part(merged, key), value)
        else:
            merged[key] = value
    return merged


def name_retry(name: str) -> str:
    """Returns the name of the next try: NAME-r2, then NAME-r3; a long name loses its end."""
    found = re.fullmatch(r"(.+)-r([1-9][0-9]{0,3})", name)
    base, number = (found[1], int(found[2]) + 1) if found else (name, 2)
    suffix = f"-r{number}"
    return base[: names.MAX_JOB_NAME - len(suffix)].rstrip("-") + suffix


def build_retry(job: Object, changes: Object, name: str = "") -> Object:
    """Returns the job that continues a finished one from its newest checkpoint, in a run of another name.

    Raises:
        ClientError: the job has not finished.
    """
    status = parse_status(job.get("status"))
    old = str(job["metadata"]["name"])
    if not status.is_finished:
        message = f"{old} has not finished (phase {status.phase or 'none'}): Railhead retries it by itself"
        remedy = f"to change it, run `railhead suspend {old} --wait` and `railhead resume {old} --set PATH=VALUE`"
        raise ClientError(f"{message}; {remedy}", ExitCode.REFUSED)
    spec = dict(part(job, "spec"))
    spec.pop("suspend", None)
    if status.checkpoint is not None:
        spec["resumeFrom"] = {"checkpoint": status.checkpoint.uri}
        # A run of that name has its own checkpoints, before those of resumeFrom.
        if "name" in part(spec, "run"):
            spec["run"] = {key: value for key, value in spec["run"].items() if key != "name"}
    metadata = job["metadata"]
    kept = {key: _own(part(metadata, key)) for key in ("labels", "annotations")}
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": {
            "name": name or name_retry(old),
            "namespace": metadata.get("namespace"),
            **{key: value for key, value in kept.items() if value},
            "annotations": {**kept["annotations"], RETRY_OF: old},
        },
        "spec": merge(spec, changes),
    }


def _own(values: Object) -> Object:
    return {key: value for key, value in values.items() if not _OF_TOOLS.match(key)}
