"""status.admission: what the queue gave the current attempt, as its pods need it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from railhead.api.model import StatusModel, make_replace, text_field
from railhead.api.names import MAX_NAME

MAX_LABELS = 16
MAX_TOLERATIONS = 16
MAX_FLAVORS = 16
MAX_ANNOTATION = 1024
_Key = Annotated[str, Field(max_length=317)]
_Value = Annotated[str, Field(max_length=63)]
_Text = Annotated[str, Field(max_length=MAX_ANNOTATION)]


class Toleration(StatusModel):
    """A toleration of a pod (core/v1 Toleration)."""

    key: str = text_field("Empty = all.", 317)
    operator: str = text_field("Exists or Equal.", 16)
    value: str = text_field("Of the taint.", 63)
    effect: str = text_field("Empty = all.", 32)
    toleration_seconds: int | None = Field(
        default=None, description="With NoExecute.", json_schema_extra={"format": "int64"}
    )


class PodSetAdmission(StatusModel):
    """What the queue gave the pods of one role."""

    name: str = text_field("head or workers.", 63)
    count: int = Field(default=0, ge=0, description="Number of pods.")
    flavors: list[_Key] = Field(default_factory=list, max_length=MAX_FLAVORS, description="Names of ResourceFlavors.")
    labels: dict[_Key, _Value] = Field(
        default_factory=dict, max_length=MAX_LABELS, description="Labels that admission checks add to the pods."
    )
    annotations: dict[_Key, _Text] = Field(
        default_factory=dict, max_length=MAX_LABELS, description="Annotations that admission checks add to the pods."
    )
    node_selector: dict[_Key, _Value] = Field(
        default_factory=dict, max_length=MAX_LABELS, description="Node labels that the pods select for them."
    )
    topology_aware: bool = Field(
        default=False, description="Whether Kueue assigns a node to each pod (Topology Aware Scheduling)."
    )
    tolerations: list[Toleration] = Field(
        default_factory=list, max_length=MAX_TOLERATIONS, description="Tolerations that the pods have for them."
    )


class AdmissionStatus(StatusModel):
    """What the queue gave the current attempt."""

    queue: str = text_field("LocalQueue that admitted the job.", MAX_NAME)
    cluster_queue: str = text_field("ClusterQueue whose quota it uses.", MAX_NAME)
    pod_sets: list[PodSetAdmission] = Field(default_factory=list, max_length=8, description="By role.")

    def find(self, name: str) -> PodSetAdmission:
        """Returns the pod set of this name, or one without anything."""
        return next((each for each in self.pod_sets if each.name == name), PodSetAdmission(name=name))

    def keep(self, name: str, count: int) -> AdmissionStatus:
        """Returns the admission of fewer pods of this name."""
        reduced = replace_pod_set(self.find(name), count=count)
        kept = [reduced if each.name == name else each for each in self.pod_sets]
        return replace_admission(self, pod_sets=kept)


replace_pod_set = make_replace(PodSetAdmission)
replace_admission = make_replace(AdmissionStatus)
