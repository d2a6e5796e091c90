"""The CustomResourceDefinition, generated from the models: `python -m railhead.api.crd FILE [--check]`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from railhead._version import __version__
from railhead.api import names
from railhead.api.changes import add_rules_of_changes
from railhead.api.schema import RULES, Schema, build_schema
from railhead.api.spec import TrainJobSpec
from railhead.api.status import JobStatus

LABELS = {"app.kubernetes.io/name": "railhead", "app.kubernetes.io/version": __version__}
LIMIT_BYTES = 262_144  # above it a plain `kubectl apply` fails
FILE_NAME = f"{names.GROUP}_{names.PLURAL}.yaml"
HEADER = "# Generated from operator/railhead/api by `make generate`; do not edit.\n"


class PrinterColumn(NamedTuple):
    """A column of `kubectl get`."""

    name: str
    path: str
    description: str
    type_: str = "string"
    is_wide: bool = False

    def build(self) -> dict[str, Any]:
        column: dict[str, Any] = {
            "name": self.name,
            "type": self.type_,
            "jsonPath": self.path,
            "description": self.description,
        }
        if self.is_wide:
            column["priority"] = 1
        return column


COLUMNS = [
    PrinterColumn("Phase", ".status.phase", description="Summary of the conditions."),
    PrinterColumn(
        "Progress", ".status.progress.percentComplete", type_="integer", description="Percentage that is done."
    ),
    PrinterColumn("Remaining", ".status.progress.remaining", description="How long training takes until its end."),
    PrinterColumn("Age", ".metadata.creationTimestamp", type_="date", description="Time since the job was created."),
    PrinterColumn(
        "Workers", ".status.workers.ready", type_="integer", is_wide=True, description="Running worker pods."
    ),
    PrinterColumn("Attempt", ".status.attempt", type_="integer", is_wide=True, description="Current attempt."),
    PrinterColumn(
        "Checkpoint",
        ".status.checkpoint.index",
        type_="integer",
        is_wide=True,
        description="Newest committed checkpoint.",
    ),
    PrinterColumn("Loss", ".status.progress.metrics.loss", is_wide=True, description="Metric named loss."),
    PrinterColumn("Head", ".status.head.pod", is_wide=True, description="Head pod of the current attempt."),
    PrinterColumn("URI", ".status.checkpoint.uri", is_wide=True, description="Newest committed checkpoint."),
]


def build_spec_schema() -> Schema:
    spec = build_schema(TrainJobSpec)
    # So that the defaults inside apply when the object is omitted.
    for field in ("scaling", "head", "worker"):
        inner = spec["properties"][field]["properties"]
        spec["properties"][field]["default"] = {n: p["default"] for n, p in inner.items() if "default" in p}
    return spec


def build_status_schema() -> Schema:
    """Returns the schema of the status: none of its fields is required or has its own default."""
    status: Schema = _without_defaults(build_schema(JobStatus))
    status["default"] = {"observedGeneration": -1, "attempt": 0, "round": 0}
    status["properties"]["phase"]["enum"] = [p for p in status["properties"]["phase"]["enum"] if p]
    conditions = status["properties"]["conditions"]
    conditions["x-kubernetes-list-type"] = "map"
    conditions["x-kubernetes-list-map-keys"] = ["type"]
    return status


def _without_defaults(node: Any) -> Any:
    if isinstance(node, dict):
        return {k: _without_defaults(v) for k, v in node.items() if k != "default"}
    if isinstance(node, list):
        return [_without_defaults(item) for item in node]
    return node


def build_crd() -> dict[str, Any]:
    """Returns the complete CustomResourceDefinition."""
    root = {
        "type": "object",
        "description": "A distributed training run with Ray Train, from its code to its checkpoints.",
        "required": ["spec"],
        RULES: [
            {
                "rule": f"size(self.metadata.name) <= {names.MAX_JOB_NAME} && "
                "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
                "message": f"metadata.name: at most {names.MAX_JOB_NAME} lower-case letters, digits and -, "
                "starting with a letter, because pods and a Service are named after it",
            }
        ],
        "properties": {
            "apiVersion": {"type": "string", "description": "Version of the resource."},
            "kind": {"type": "string", "description": "TrainJob."},
            "metadata": {"type": "object"},
            "spec": build_spec_schema(),
            "status": build_status_schema(),
        },
    }
    add_rules_of_changes(root)
    version = {
        "name": names.VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": root},
        "subresources": {"status": {}},
        "additionalPrinterColumns": [column.build() for column in COLUMNS],
        "selectableFields": [{"jsonPath": ".status.phase"}],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{names.PLURAL}.{names.GROUP}", "labels": LABELS},
        "spec": {
            "group": names.GROUP,
            "names": {
                "kind": names.KIND,
                "listKind": f"{names.KIND}List",
                "plural": names.PLURAL,
                "singular": "trainjob",
                "shortNames": ["rtj"],
                "categories": ["railhead"],
            },
            "scope": "Namespaced",
            "versions": [version],
        },
    }


def render() -> str:
    return HEADER + str(yaml.safe_dump(build_crd(), sort_keys=False, width=100, allow_unicode=True))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Writes the CRD, or checks that the file is up to date.")
    parser.add_argument("file", type=Path)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args(arguments)
    text = render()
    if len(text.encode()) > LIMIT_BYTES:
        print(f"the CRD has more than {LIMIT_BYTES} bytes", file=sys.stderr)
        return 1
    if options.check:
        if options.file.read_text() == text:
            return 0
        print(f"{options.file} is stale: run `make generate`", file=sys.stderr)
        return 1
    options.file.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
