"""git's own last lines as the message of a failure, and its class by two lists of words. Pure.

What is in neither list may pass, so the fetch is retried and the failure is Infrastructure in
the end; what the user must fix is Configuration.
"""

from __future__ import annotations

from typing import Sequence

from railhead.contract.failure import Failure, FailureClass
from railhead.driver.describe import clean
from railhead.driver.errors import AttemptFailed

FIELD = "spec.source.git"
# The server serves only the commits that its branches and tags point at.
UNADVERTISED = ("unadvertised object", "does not allow request for")
NO_COMMIT = (
    "not our ref",
    "find remote ref",
    "no such remote ref",
    "bad object",
    "not a valid object",
    "mismatched algorithms",  # a hash of 64 digits, or a repository of such
    "hash algorithm",
)
REFUSED = (
    "authentication fail",
    "could not read username",
    "could not read password",
    "permission denied (",
    "access denied",
    "error: 401",
    "error: 403",
    "error: 404",
    "not found",  # a repository, or ssh
    "not appear to be a git repository",
    "host key verification failed",
    "certificate",
    "not allowed",  # a protocol
    "not supported",
    "find remote helper",
    "is not a git command",
    "cannot run ssh",
)


class FetchProblem(AttemptFailed):
    """The commit cannot be fetched."""

    @property
    def is_lasting(self) -> bool:
        return self.failure.class_ == FailureClass.CONFIGURATION


def has_any(output: str, phrases: Sequence[str]) -> bool:
    return any(each in output.lower() for each in phrases)


def classify_words(output: str, *, repository: str, revision: str) -> FetchProblem:
    """`output`: git's standard error."""
    lines = [line.strip() for line in output.splitlines() if line.strip() and not line.startswith("hint:")]
    detail = clean("; ".join(lines[-5:]))[:600] or "git printed nothing"
    if has_any(output, NO_COMMIT):
        return commit_not_found(repository, revision, detail)
    if has_any(output, REFUSED):
        message = f"{FIELD}: git cannot read {repository}; correct repository, secretName or image: {detail}"
        return configuration("RepositoryRefused", message)
    message = f"{FIELD}.repository: {repository} cannot be fetched: {detail}"
    return FetchProblem(Failure(FailureClass.INFRASTRUCTURE, "SourceNotFetched", message))


def configuration(reason: str, message: str) -> FetchProblem:
    return FetchProblem(Failure(FailureClass.CONFIGURATION, reason, message))


def commit_not_found(repository: str, revision: str, detail: str) -> FetchProblem:
    message = f"{repository} has no commit {revision}, or does not serve it to these credentials: {detail}"
    return configuration("CommitNotFound", f"{FIELD}.revision: {message}")
