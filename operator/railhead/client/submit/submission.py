"""The job that `submit` creates, what it will take, and whether a job of its name is the same. Pure."""

from __future__ import annotations

import ast
import difflib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PureWindowsPath

from railhead.api import names
from railhead.api.quantities import parse_quantity
from railhead.api.source import MAX_INLINE_BYTES
from railhead.api.status import parse_status
from railhead.client.cluster.rank_count import count_ranks
from railhead.client.exit_codes import ClientError, ExitCode
from railhead.client.submit.code_files import format_size
from railhead.client.submit.code_map import CodeMap
from railhead.client.submit.spec_changes import merge
from railhead.contract.digest import digest
from railhead.json_object import Object, part, parts, text

CONTENT = f"{names.GROUP}/content"  # annotation: digest of what was submitted
GPU = "nvidia.com/gpu"


def split_target(target: str) -> tuple[str, str]:
    """Returns file and function of a target such as src/train.py:train_func.

    Raises:
        ClientError: the target is not of that form.
    """
    found = re.fullmatch(r"(.*\.py):([A-Za-z_]\w*)", target, re.DOTALL)
    if found is None or not _name_stem(found[1]).isidentifier():
        message = f"{target}: name a YAML file, or a Python file and its function as in train.py:train_func"
        raise ClientError(message, ExitCode.USAGE)
    return found[1], found[2]


def _name_stem(file: str) -> str:
    # It knows both separators.
    return PureWindowsPath(file).stem


def build_job(
    target: str,
    code: str,
    *,
    image: str,
    storage: str,
    name: str = "",
    workers: int = 1,
    gpus: int = 0,
    module: str = "",
) -> Object:
    """Returns the job of a script, with the file as inline source unless it is in a folder.

    Args:
        code: the text of the file.
        storage: a URI or a path; or pvc:NAME or pvc:NAME/PATH, a claim or a folder of it.
        gpus: per worker.
        module: of the file in a folder that `attach_code` adds; "" = the file alone is the code.

    Raises:
        ClientError: the target has another form, or the file is too long.
    """
    file, function = split_target(target)
    stem = _name_stem(file)
    size = len(code.encode())
    if not module and size > MAX_INLINE_BYTES:
        message = f"{file} has {size} bytes, and spec.source.inline holds {MAX_INLINE_BYTES}; add --code FOLDER"
        raise ClientError(message, ExitCode.REFUSED)
    scaling: Object = {"numWorkers": workers}
    if gpus:
        scaling |= {"useGPU": True, "resourcesPerWorker": {GPU: gpus}}
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": {"name": name or stem.replace("_", "-").lower()},
        "spec": {
            "image": image,
            "trainer": {"trainFunc": f"{module or stem}:{function}"},
            **({} if module else {"source": {"inline": {f"{stem}.py": code}}}),
            "scaling": scaling,
            **_build_storage(storage),
        },
    }


def _build_storage(storage: str) -> Object:
    """Returns the fields of the spec: for a claim, also what mounts it."""
    found = re.fullmatch(r"pvc:([a-z0-9][-.a-z0-9]*)(?:/(.*))?", storage)
    if found is None:
        return {"run": {"storagePath": storage}}
    claim = {"persistentVolumeClaim": {"claimName": found[1]}}
    place = f"/mnt/{found[1]}"
    if not found[2]:
        return {"run": {"storagePath": place, "storageVolume": claim}}
    container = {"name": names.CONTAINER, "volumeMounts": [{"name": "storage", "mountPath": place}]}
    template = {"spec": {"containers": [container], "volumes": [{"name": "storage", **claim}]}}
    return {"run": {"storagePath": f"{place}/{found[2]}"}, "podTemplate": template}


def change_job(job: Object, changes: Object, secrets: Sequence[str]) -> Object:
    """Returns the job with the changes of its spec, and with all keys of the Secrets as environment variables."""
    spec = merge(part(job, "spec"), changes)
    if secrets:
        spec["envFrom"] = [*(spec.get("envFrom") or []), *({"secretRef": {"name": name}} for name in secrets)]
    return {**job, "spec": spec}


def attach_code(job: Object, code: CodeMap) -> Object:
    """Returns the job with the code as its spec.source. Raises ClientError if it has another one."""
    if part(job, "spec").get("source"):
        raise ClientError("--code: the job has a spec.source already; use one of the two", ExitCode.USAGE)
    return {**job, "spec": {**part(job, "spec"), "source": code.source}}


def mark(job: Object) -> Object:
    """Returns the job with the digest of its spec, by which another `submit` of the same recognises it."""
    content = json.dumps(part(job, "spec"), sort_keys=True).encode()
    metadata = part(job, "metadata")
    annotations = {**part(metadata, "annotations"), CONTENT: digest(content)}
    return {**job, "metadata": {**metadata, "annotations": annotations}}


def check_existing(new: Object, old: Object, code_differences: Sequence[str] = ()) -> str:
    """Returns a remark if the job of that name is the same as the new one, which is marked.

    Raises:
        ClientError: it is another one; has the difference, or how to retry a finished job.
    """
    name = str(old["metadata"]["name"])
    status = parse_status(old.get("status"))
    if old["metadata"].get("deletionTimestamp"):
        raise ClientError(f"{name} is being deleted; submit it again once it is gone", ExitCode.REFUSED)
    differences = list(_compare(part(new, "spec"), part(old, "spec"), "spec"))
    known = text(part(old["metadata"], "annotations"), CONTENT)
    if known:
        is_same = known == new["metadata"]["annotations"][CONTENT]
    else:
        is_same = not differences
    if is_same and not status.is_finished:
        return f"{name} is this job already, in phase {status.phase or 'none'}"
    if status.is_finished:
        message = f"{name} has finished ({status.phase}); run `railhead retry {name}`, or choose another name"
        raise ClientError(message, ExitCode.REFUSED)
    # They say more than the name of the ConfigMap.
    if code_differences:
        other = [each for each in differences if not each.startswith("spec.source.configMap.")]
        differences = [*other, *code_differences]
    what = "\n".join(differences or ["(a field that was removed)"])
    raise ClientError(f"{name} exists with another spec; choose another name\n{what}", ExitCode.REFUSED)


def _compare(new: object, old: object, path: str) -> Iterator[str]:
    """Yields the fields of `new` that differ; what only `old` has may be a default."""
    if isinstance(new, dict) and isinstance(old, dict):
        for key, value in new.items():
            yield from _compare(value, old.get(key), f"{path}.{key}")
    elif new != old:
        yield f"{path}: {_short(new)} instead of {_short(old)}"


def _short(value: object) -> str:
    shown = json.dumps(value)
    if len(shown) <= 60:
        return shown
    return f"{shown[:60]}..."


def describe_plan(job: Object, namespace: str, code: CodeMap | None = None) -> list[tuple[str, str]]:
    """Returns what the job will take, by the API server's answer to a dry run, as names and values."""
    spec = part(job, "spec")
    scaling = part(spec, "scaling")
    run = part(spec, "run")
    source = part(spec, "source")
    least, most = count_ranks(job)
    per_pod = int(scaling.get("workersPerPod") or 1)
    pods = _describe_range(least // per_pod, most // per_pod)
    workers = _describe_range(least, most)
    resources = dict(part(scaling, "resourcesPerWorker"))
    if scaling.get("useGPU"):
        resources.setdefault(text(scaling, "gpuResourceName") or GPU, 1)
    gpus = [f"{parse_quantity(str(count)) * most:f} {key}" for key, count in resources.items() if "/" in key]
    return [
        ("Job", f"{namespace}/{job['metadata']['name']}" + (", suspended" if spec.get("suspend") else "")),
        ("Pods", f"1 head, {pods} worker pods with {workers} workers"),
        ("Per worker", ", ".join(f"{key} {value}" for key, value in resources.items()) or "the defaults"),
        ("Devices", (", ".join(gpus) or "none") + (" at most" if gpus and least < most else "")),
        ("Image", text(spec, "image")),
        ("Storage", text(run, "storagePath") or "(as in spec.run)"),
        ("Code", _describe_source(source, code)),
    ]


def list_claims(pods: Sequence[Object]) -> list[str]:
    """Returns the names of the PersistentVolumeClaims that the pods mount, each once."""
    volumes = [volume for pod in pods for volume in parts(part(pod, "spec"), "volumes")]
    claims = [text(part(volume, "persistentVolumeClaim"), "claimName") for volume in volumes]
    return list(dict.fromkeys(claim for claim in claims if claim))


def check_functions(job: Object, files: Mapping[str, bytes]) -> None:
    """Raises ClientError if a function that the job names is not in the file of its module.

    A module that is not sent passes: the image may have it.

    Args:
        files: the code of --code by relative paths; beside it the code of spec.source.inline is looked at.
    """
    spec = part(job, "spec")
    sent = {name: str(code) for name, code in part(part(spec, "source"), "inline").items()}
    sent |= {path: content.decode("utf-8", "replace") for path, content in files.items()}
    trainer = part(spec, "trainer")
    for field in ("trainFunc", "build", "validationFunction"):
        module, _, function = text(trainer, field).partition(":")
        file = f"{module.replace('.', '/')}.py"
        if function and file in sent:
            _check_function(file, sent[file], function)


def _check_function(file: str, code: str, function: str) -> None:
    """Raises ClientError if nothing in the code has the function's name.

    Code that this Python cannot parse passes: the image may have a newer one. So does code with `from x import *`.
    """
    try:
        tree = ast.parse(code)
    except SyntaxError:
        return
    known: list[str] = []
    bound: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.alias):
            bound.add(node.asname or node.name)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            bound.add(node.name)
            known.append(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.add(node.id)
    if "*" in bound or function in bound:
        return
    close = difflib.get_close_matches(function, known, n=3) or known[:3]
    hint = ""
    if close:
        hint = f"; it has {', '.join(close)}"
    raise ClientError(f"{file} has no function {function}{hint}", ExitCode.USAGE)


def _describe_range(least: int, most: int) -> str:
    if least < most:
        return f"{least} to {most}"
    return f"{most}"


def _describe_source(source: Object, code: CodeMap | None) -> str:
    if code is not None:
        return f"{len(code.files)} files, {format_size(code.size)}, in the ConfigMap {code.name}"
    inline = part(source, "inline")
    if inline:
        return ", ".join(f"{name} ({len(str(code).encode())} bytes)" for name, code in inline.items())
    return next((f"source.{kind}" for kind in source), "in the image")
