"""spec.ray: parts of Ray that a job runs without unless it asks for them."""

from __future__ import annotations

from pydantic import Field

from railhead.api.model import Model


class RayOptions(Model):
    """Parts of Ray that no job needs."""

    dashboard: bool = Field(
        default=False, description="Whether the head pod runs Ray's dashboard; needs ray[default] in the image."
    )
