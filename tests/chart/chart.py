"""Renders the chart, once for each set of values."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

Object = dict[str, Any]
NAMESPACE = "railhead-system"
# Release names that helm accepts but that are not valid names of a Service.
RELEASES = ("a" * 53, "9lives", "9" * 53, "team.a", "9-railhead", "a" * 44 + "-railhead")


class RenderFailed(AssertionError):
    """helm failed to render; the text is its error message."""


class Chart:
    """The chart, rendered by helm.

    Attributes:
        folder: the chart's.
        helm: path of the binary.
    """

    def __init__(self, folder: Path, helm: Path) -> None:
        self.folder = folder
        self.helm = helm
        self._rendered: dict[str, str] = {}

    def template(
        self, values: Mapping[str, Any], *, release: str = "railhead", namespace: str = NAMESPACE, options: str = ""
    ) -> str:
        """The output of `helm template`. Raises RenderFailed."""
        text = json.dumps(values)
        key = f"{release} {namespace} {options} {text}"
        if key not in self._rendered:
            command = [str(self.helm), "template", release, str(self.folder), "-n", namespace, "-f", "-"]
            done = subprocess.run([*command, *options.split()], input=text, capture_output=True, text=True, check=False)
            if done.returncode:
                raise RenderFailed(done.stderr)
            self._rendered[key] = done.stdout
        return self._rendered[key]

    def render(self, values: Mapping[str, Any] | None = None, **options: str) -> Rendered:
        """The objects; the slow CRD only with `crds` among the values. Raises RenderFailed."""
        text = self.template({"crds": {"enabled": False}, **(values or {})}, **options)
        return Rendered([document for document in yaml.load_all(text, Loader=yaml.CSafeLoader) if document])


class Rendered:
    """The objects of one rendering, with queries."""

    def __init__(self, objects: list[Object]) -> None:
        self.objects = objects

    def of(self, kind: str) -> list[Object]:
        return [o for o in self.objects if o["kind"] == kind]

    def one(self, kind: str, name: str = "") -> Object:
        """The object of this kind (and name). Raises AssertionError unless there is exactly one."""
        found = [o for o in self.of(kind) if not name or o["metadata"]["name"] == name]
        assert len(found) == 1, [(o["kind"], o["metadata"]["name"]) for o in self.objects]
        return found[0]

    @property
    def pod(self) -> Object:
        """The template of the operator's pods."""
        template: Object = self.one("Deployment")["spec"]["template"]
        return template

    @property
    def container(self) -> Object:
        [container] = self.pod["spec"]["containers"]
        found: Object = container
        return found

    def grants(self, kind: str) -> set[tuple[str, str, str, str]]:
        """(namespace, verb, group, resource) of all roles of this kind that are bound to the operator's account."""
        bound = {(b["metadata"].get("namespace", ""), b["roleRef"]["name"]) for b in self.of(f"{kind}Binding")}
        roles = [r for r in self.of(kind) if (r["metadata"].get("namespace", ""), r["metadata"]["name"]) in bound]
        return {grant for role in roles for grant in _expand(role)}


def _expand(role: Object) -> Iterator[tuple[str, str, str, str]]:
    for rule in role["rules"]:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    yield role["metadata"].get("namespace", ""), verb, group, resource
