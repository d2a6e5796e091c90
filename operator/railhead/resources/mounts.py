"""The objects that all pods of an attempt mount, by name.

Each name ends with the digest of the content, and a pod runs with no other content: whoever may
create or replace such an object still cannot choose what is in it.
"""

from __future__ import annotations

from dataclasses import dataclass

from railhead.api.spec import TrainJobSpec
from railhead.resources.input import find_input_name
from railhead.resources.owner import JobRef
from railhead.resources.secret import find_secret_name
from railhead.resources.settings import OperatorSettings


@dataclass(frozen=True)
class Mounts:
    """The status records them with the attempt.

    Attributes:
        driver: ConfigMap with the driver, one for the jobs of a namespace.
        input: ConfigMap with the driver's input and inline code.
        secret: Secret with Ray's token.
    """

    driver: str
    input: str
    secret: str


def find_mounts(job: JobRef, spec: TrainJobSpec, settings: OperatorSettings) -> Mounts:
    """Those of an attempt that begins now."""
    input_ = find_input_name(job, spec, settings)
    return Mounts(settings.bundle_name, input_, find_secret_name(job, settings, input_name=input_))


def get_digest(name: str) -> str:
    """Of the content, from the object's name."""
    return name.rpartition("-")[2]
