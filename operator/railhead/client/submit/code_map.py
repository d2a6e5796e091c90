"""The user's code as an immutable ConfigMap of the job, and as the spec.source that mounts it. Pure."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from railhead.api import names
from railhead.client.submit.code_files import CodeFile, format_size
from railhead.contract.digest import digest
from railhead.json_object import Object, part, text
from railhead.kube.kinds import CONFIG_MAP
from railhead.resources.base import build_owner

PENDING = f"{names.GROUP}/code-pending"  # annotation of a job whose ConfigMap is not known to exist; names it
LONGEST_KEY = 253


@dataclass(frozen=True)
class CodeMap:
    """The code of one job.

    Attributes:
        name: of the ConfigMap; the same content under the same job has the same name.
        metadata: its labels and annotations.
    """

    name: str
    files: tuple[CodeFile, ...]
    metadata: Object = field(default_factory=dict, hash=False)

    @property
    def size(self) -> int:
        return sum(len(each.content) for each in self.files)

    @property
    def source(self) -> Object:
        """spec.source of the job."""
        items = [{"key": key, "path": each.path} for key, each in self._keyed]
        return {"configMap": {"name": self.name, "items": items}}

    @property
    def _keyed(self) -> list[tuple[str, CodeFile]]:
        """Returns the files by key. A key has no folders; the number keeps files of the same name apart."""
        names_ = ((f"{number}-{each.path.rpartition('/')[2]}", each) for number, each in enumerate(self.files))
        return [(key[:LONGEST_KEY], each) for key, each in names_]

    def build(self, namespace: str, job: str, uid: str) -> Object:
        """Returns the ConfigMap, which is deleted with the job."""
        data = {}
        binary = {}
        for key, each in self._keyed:
            try:
                data[key] = each.content.decode()
            except UnicodeDecodeError:
                binary[key] = base64.b64encode(each.content).decode()
        owner = build_owner(names.API_VERSION, names.KIND, job, uid)
        return {
            "apiVersion": CONFIG_MAP.api_version,
            "kind": CONFIG_MAP.kind,
            "metadata": {
                "name": self.name,
                "namespace": namespace,
                **self.metadata,
                "ownerReferences": [owner],
            },
            "immutable": True,
            **({"data": data} if data else {}),
            **({"binaryData": binary} if binary else {}),
        }

    def describe(self) -> list[str]:
        """Returns a line for each file, with its size."""
        return [f"{format_size(len(each.content)):>10}  {each.path}" for each in self.files]


def read_demanded(job: Object) -> Object:
    """Returns the labels and annotations of spec.childMetadata; the API server judges them with the job."""
    wanted = part(part(job, "spec"), "childMetadata")
    return {key: wanted[key] for key in ("labels", "annotations") if wanted.get(key)}


def make_code_map(job: str, files: Sequence[CodeFile], metadata: Object | None = None) -> CodeMap:
    """Returns the code of the job with this name. `metadata`: the labels and annotations of its ConfigMap."""
    content = json.dumps([(each.path, digest(each.content)) for each in files])
    return CodeMap(f"{job}-code-{digest(content.encode())}", tuple(files), metadata or {})


def hold(job: Object, code: CodeMap) -> Object:
    """Returns the job as it is created before its ConfigMap: suspended, and annotated with what it waits for."""
    metadata = part(job, "metadata")
    annotations = {**part(metadata, "annotations"), PENDING: code.name}
    return {
        **job,
        "metadata": {**metadata, "annotations": annotations},
        "spec": {**part(job, "spec"), "suspend": True},
    }


def build_release(job: Object, uid: str) -> Object:
    """Returns the merge patch of a held job whose ConfigMap exists; with the uid, only that job takes it."""
    suspend = bool(part(job, "spec").get("suspend"))
    return {"metadata": {"uid": uid, "annotations": {PENDING: None}}, "spec": {"suspend": suspend}}


def is_held(job: Object) -> bool:
    """Returns whether the stored job waits for its code."""
    return bool(text(part(part(job, "metadata"), "annotations"), PENDING))


def has_same_content(new: Object, old: Object) -> bool:
    """Returns whether a stored ConfigMap is what `CodeMap.build` returned, whoever owns it."""
    keys = ("immutable", "data", "binaryData")
    return all(new.get(key) == old.get(key) for key in keys)


def compare_files(new: CodeMap, old_source: Object, old: Object) -> list[str]:
    """Returns a line for each file that differs from those of the stored job's ConfigMap."""
    stored = {
        **{key: str(value).encode() for key, value in part(old, "data").items()},
        **{key: base64.b64decode(str(value)) for key, value in part(old, "binaryData").items()},
    }
    items = [each for each in part(old_source, "configMap").get("items") or [] if isinstance(each, dict)]
    before = {text(item, "path"): stored.get(text(item, "key")) for item in items}
    after = {each.path: each.content for each in new.files}
    changed = [f"code: {path} differs" for path in after if path in before and before[path] != after[path]]
    added = [f"code: {path} is new" for path in after if path not in before]
    return [*changed, *added, *(f"code: {path} is missing" for path in before if path not in after)]
