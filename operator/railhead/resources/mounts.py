"""The objects that all pods of an attempt mount, by name.

The names of the first three end with the digest of the content, and a pod runs with no other content: whoever may
create or replace such an object still cannot choose what is in it. The content of the copy is not known before it is
made, but its name cannot be guessed.
"""

from __future__ import annotations

from dataclasses import dataclass

from railhead.api import names
from railhead.api.spec import TrainJobSpec
from railhead.resources.input import find_input_name
from railhead.resources.owner import JobRef
from railhead.resources.secret import derive_text, find_secret_name
from railhead.resources.settings import OperatorSettings

NONCE_CHARS = 12


@dataclass(frozen=True)
class Mounts:
    """The status records them with the attempt.

    Attributes:
        driver: ConfigMap with the driver, one for the jobs of a namespace.
        input: ConfigMap with the driver's input and inline code.
        secret: Secret with Ray's token.
        source: the job's copy of the ConfigMap of spec.source.configMap; "" = it has none.
    """

    driver: str
    input: str
    secret: str
    source: str = ""


def find_mounts(job: JobRef, spec: TrainJobSpec, settings: OperatorSettings) -> Mounts:
    """Those of an attempt that begins now."""
    input_ = find_input_name(job, spec, settings)
    source = find_source_name(job, settings) if spec.source and spec.source.config_map else ""
    return Mounts(settings.bundle_name, input_, find_secret_name(job, settings, input_name=input_), source)


def find_source_name(job: JobRef, settings: OperatorSettings) -> str:
    """Of a copy that is made now: nobody can have created it before."""
    return names.source_name(job.name, job.uid, derive_text(job, settings, "source")[:NONCE_CHARS])


def get_digest(name: str) -> str:
    """Of the content, from the object's name."""
    return name.rpartition("-")[2]
