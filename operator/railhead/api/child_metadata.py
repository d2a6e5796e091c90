"""spec.childMetadata: labels and annotations of all objects that the operator makes for a job."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from railhead.api.model import Model, optional, rules

KEY = r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"
LabelValue = Annotated[str, Field(max_length=63, pattern=r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$")]
Key = Annotated[str, Field(min_length=1, max_length=317, pattern=KEY)]
OWN_KEYS = rules(
    (
        "",
        "self.all(k, !k.startsWith('railhead.dev/') && k != 'app.kubernetes.io/managed-by')",
        "railhead.dev/ and app.kubernetes.io/managed-by are Railhead's own",
    )
)


class ChildMetadata(Model):
    """Labels and annotations of the job's children."""

    labels: dict[Key, LabelValue] | None = optional("Labels.", max_length=32, json_schema_extra=OWN_KEYS)
    annotations: dict[Key, Annotated[str, Field(max_length=32768)]] | None = optional(
        "Annotations.", max_length=32, json_schema_extra=OWN_KEYS
    )
