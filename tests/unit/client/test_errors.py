"""What the API server's answers mean for users."""

from __future__ import annotations

import pytest

from railhead.client.errors import ExitCode, explain_error
from railhead.kube.errors import Conflict, Denied, Gone, KubeError, RetryAfter


@pytest.mark.parametrize(
    ("error", "code", "remedy"),
    [
        (Denied(401, "Unauthorized", "Unauthorized"), ExitCode.DENIED, "log in again"),
        (Denied(403, "Forbidden", "user x cannot list"), ExitCode.DENIED, "user x cannot list; ask an administrator"),
        (Gone(404, "NotFound", "trainjobs x not found"), ExitCode.NOT_FOUND, "x not found"),
        (RetryAfter(0, "NoAnswer", "refused"), ExitCode.UNREACHABLE, "no answer from the API server .refused.; try"),
        (Conflict(409, "AlreadyExists", "x exists"), ExitCode.REFUSED, "choose another name"),
        (Denied(422, "Invalid", "spec.image: field is immutable"), ExitCode.REFUSED, "spec.image: field is immutable"),
    ],
)
def test_an_error_has_its_code_and_its_remedy(error: KubeError, code: ExitCode, remedy: str) -> None:
    explained = explain_error(error, "list TrainJobs")
    assert explained.code == code
    with pytest.raises(type(explained), match=f"cannot list TrainJobs: .*{remedy}"):
        raise explained
