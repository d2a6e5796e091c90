"""A container's environment, command and arguments as a kubelet expands them, with mount paths rewritten.

There is no mount namespace here: where a mount path occurs in the command, the arguments or a
variable's value, the real folder replaces it. A function argument looks up ConfigMaps and Secrets.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence

from railhead.json_object import Object
from railhead.local.addresses import NODE_ADDRESS

# (kind, name) -> its data as text, or None when there is no such object
Lookup = Callable[[str, str], Awaitable[Mapping[str, str] | None]]
REFERENCE = re.compile(r"\$(\$|\(([A-Za-z_][A-Za-z0-9_.-]*)\))")
PATH_END = r"(?=/|$|[\s:,;'\"])"
PATH_BEGIN = r"(?:^|(?<=[\s:,;='\"]))"


class MissingReference(LookupError):
    """A ConfigMap, Secret or key that the container refers to does not exist (yet)."""


class NotPossible(MissingReference):
    """The container needs something that this node does not support."""


def expand(text: str, values: Mapping[str, str]) -> str:
    """Replaces $(NAME) by its value and $$ by one $; an unknown name stays as it is."""

    def one(match: re.Match[str]) -> str:
        if match[1] == "$":
            return "$"
        return values.get(match[2], match[0])

    return REFERENCE.sub(one, text)


def rewrite(text: str, mounts: Mapping[str, str]) -> str:
    """Replaces mount paths by real ones, the longest first, whole path segments only."""
    if not mounts:
        return text
    paths = sorted((p.rstrip("/") for p in mounts), key=len, reverse=True)
    pattern = re.compile(f"{PATH_BEGIN}({'|'.join(map(re.escape, paths))}){PATH_END}")
    folders = {path.rstrip("/"): folder for path, folder in mounts.items()}
    return pattern.sub(lambda match: folders[match[1]], text)


def field_value(pod: Object, path: str, *, address: str) -> str:
    """Returns the value of a downward API field."""
    metadata = pod["metadata"]
    spec = pod["spec"]
    known = {
        "metadata.name": metadata["name"],
        "metadata.namespace": metadata["namespace"],
        "metadata.uid": metadata["uid"],
        "spec.nodeName": spec.get("nodeName", ""),
        "spec.serviceAccountName": spec.get("serviceAccountName", "default"),
        "status.podIP": address,
        "status.podIPs": address,
        "status.hostIP": NODE_ADDRESS,
    }
    match = re.fullmatch(r"metadata\.(labels|annotations)\['([^']+)'\]", path)
    if match:
        return str((metadata.get(match[1]) or {}).get(match[2], ""))
    if path not in known:
        raise MissingReference(f"field {path} is not supported on this node")
    return str(known[path])


async def _from(reference: Object, kind: str, lookup: Lookup) -> str | None:
    data = await lookup(kind, reference["name"])
    if data is None or reference["key"] not in data:
        if reference.get("optional"):
            return None
        raise MissingReference(f"{kind} {reference['name']} or its key {reference['key']} does not exist")
    return data[reference["key"]]


async def _value(item: Object, values: Mapping[str, str], fields: Callable[[str], str], lookup: Lookup) -> str | None:
    source = item.get("valueFrom") or {}
    if "fieldRef" in source:
        return fields(source["fieldRef"]["fieldPath"])
    if "configMapKeyRef" in source:
        return await _from(source["configMapKeyRef"], "ConfigMap", lookup)
    if "secretKeyRef" in source:
        return await _from(source["secretKeyRef"], "Secret", lookup)
    if source:
        raise MissingReference(f"env {item['name']}: {', '.join(source)} is not supported on this node")
    return expand(str(item.get("value") or ""), values)


def _look_up_once(lookup: Lookup) -> Lookup:
    """Returns a lookup that asks for each object once, so that all variables come from one version of it."""
    known: dict[tuple[str, str], Mapping[str, str] | None] = {}

    async def look_up(kind: str, name: str) -> Mapping[str, str] | None:
        if (kind, name) not in known:
            known[kind, name] = await lookup(kind, name)
        return known[kind, name]

    return look_up


async def build_environment(
    container: Object, *, mounts: Mapping[str, str], fields: Callable[[str], str], lookup: Lookup
) -> dict[str, str]:
    """Returns the variables of a container, later ones over earlier ones; looks each object up once.

    Raises:
        MissingReference: something that it refers to does not exist.
    """
    lookup = _look_up_once(lookup)
    values: dict[str, str] = {}
    for source in container.get("envFrom") or []:
        kind = "ConfigMap" if "configMapRef" in source else "Secret"
        reference = source.get("configMapRef") or source.get("secretRef") or {}
        data = await lookup(kind, reference.get("name", ""))
        if data is None and not reference.get("optional"):
            raise MissingReference(f"{kind} {reference.get('name')} does not exist")
        values.update({source.get("prefix", "") + key: text for key, text in (data or {}).items()})
    for item in container.get("env") or []:
        value = await _value(item, values, fields, lookup)
        if value is not None:
            values[item["name"]] = value
    return {name: rewrite(value, mounts) for name, value in values.items()}


def build_command(container: Object, *, mounts: Mapping[str, str], values: Mapping[str, str]) -> list[str]:
    """Returns command and arguments. There is no image, so a container must name its command."""
    parts: Sequence[str] = [*(container.get("command") or []), *(container.get("args") or [])]
    if not container.get("command"):
        raise MissingReference("the container has no command; set one: this node pulls no images")
    # The values are rewritten already.
    return [expand(rewrite(part, mounts), values) for part in parts]
