"""What the operator would create for a TrainJob in a file: by its own planner, without a cluster.

The values that only a running operator has (its address, its certificate, the Secret's token) are placeholders, and
admission in a cluster may change the pods.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import yaml

from railhead.api import names
from railhead.api.parsed_spec import InvalidSpec, parse_spec
from railhead.api.spec import TrainJobSpec
from railhead.api.status import JobStatus
from railhead.client.exit_codes import ClientError, ExitCode
from railhead.client.submit.spec_changes import JSONLoader
from railhead.json_object import Object, part, text
from railhead.planning.observed import Observed
from railhead.planning.plan import CopyConfigMap
from railhead.planning.planner import plan
from railhead.resources.base import JobNetworkPolicy, OperatorSettings
from railhead.resources.bundle import build_bundle, bundle_name

UID = "00000000-0000-0000-0000-000000000000"
MOST_BYTES = 4096  # of a value in `data` or `binaryData`; a longer one is replaced by its size
EPOCH = datetime(2000, 1, 1, tzinfo=UTC)


def read_jobs(path: Path) -> list[Object]:
    """Returns the TrainJobs of a YAML file, which may contain other objects too.

    Raises:
        ClientError: the file cannot be read, or has no TrainJob with a name.
    """
    jobs = [each for each in _read_objects(path) if _is_job(each)]
    if not jobs or not all(text(part(job, "metadata"), "name") for job in jobs):
        message = f"{path} has no TrainJob of {names.API_VERSION} with metadata.name"
        raise ClientError(message, ExitCode.USAGE)
    return jobs


def list_other_objects(path: Path) -> list[str]:
    """Returns kind and name of each object of a YAML file that is no TrainJob. Raises ClientError as `read_jobs`."""
    others = [each for each in _read_objects(path) if not _is_job(each)]
    return [f"{text(each, 'kind')} {text(part(each, 'metadata'), 'name')}" for each in others]


def _read_objects(path: Path) -> list[Object]:
    try:
        documents = list(yaml.load_all(path.read_text(encoding="utf-8"), JSONLoader))
    except OSError as error:
        raise ClientError(f"{path} cannot be read: {error.strerror}", ExitCode.USAGE) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ClientError(f"{path} is not YAML: {error}", ExitCode.USAGE) from None
    return [each for each in documents if isinstance(each, dict)]


def _is_job(document: Object) -> bool:
    return document.get("apiVersion") == names.API_VERSION and document.get("kind") == names.KIND


def read_spec(job: Object) -> TrainJobSpec:
    """Returns the spec of a TrainJob. Raises ClientError if it is invalid; names the field."""
    name = text(job["metadata"], "name")
    try:
        return parse_spec(part(job, "spec"), name=name)
    except InvalidSpec as error:
        raise ClientError(f"{name}: {error}", ExitCode.REFUSED) from None


def render_job(job: Object) -> list[Object]:
    """Returns the objects of the first attempt, in the order in which the operator creates them.

    Raises:
        ClientError: the spec is invalid; names the field.
    """
    name = text(job["metadata"], "name")
    spec = read_spec(job)
    bundle = build_bundle()
    settings = OperatorSettings(
        report_url="https://railhead-report.railhead-system:8443",
        report_ca="(the operator's certificate)",
        bundle=bundle,
        bundle_name=bundle_name(bundle),
        token_key=b"placeholder",
        job_network_policy=JobNetworkPolicy(operator_namespace="railhead-system", report_port=8443),
    )
    # A job that is suspended, or that waits for the one that it continues, creates no pods.
    spec = spec.model_copy(update={"suspend": False, "resume_from": None})
    observed = Observed(
        now=EPOCH,
        namespace=text(job["metadata"], "namespace") or "default",
        name=name,
        uid=UID,
        generation=1,
        is_deleting=False,
        spec=spec,
        status=JobStatus(),
        pods=(),
        settings=settings,
    )
    creates = plan(observed).creates
    return [_show(each.build(), each.source if isinstance(each, CopyConfigMap) else "") for each in creates]


def _show(body: Mapping[str, object], source: str) -> Object:
    """Hides tokens, and replaces long contents by their sizes."""
    shown: Object = dict(body)
    if source:
        shown["data"] = f"(a copy of the ConfigMap {source})"
    for key in ("data", "binaryData", "stringData"):
        values = shown.get(key)
        if isinstance(values, dict):
            is_secret = shown.get("kind") == "Secret"
            shown[key] = {name: "(hidden)" if is_secret else _shorten(str(value)) for name, value in values.items()}
    return shown


def _shorten(value: str) -> str:
    if len(value) <= MOST_BYTES:
        return value
    return f"({len(value)} characters)"
