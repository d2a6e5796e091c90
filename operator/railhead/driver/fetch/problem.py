"""Translates git's errors to a class, a reason and a sentence for the user. Pure.

An unknown error may be transient, so the fetch is retried and the error is Infrastructure
in the end; what the user must fix is Configuration.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from railhead.contract.failure import Failure, FailureClass
from railhead.driver.errors import AttemptFailed

FIELD = "spec.source.git"


class FetchProblem(AttemptFailed):
    """The commit cannot be fetched."""

    @property
    def is_lasting(self) -> bool:
        return self.failure.class_ == FailureClass.CONFIGURATION


@dataclass(frozen=True)
class _Known:
    pattern: str
    reason: str
    field: str
    what: str


_KNOWN = (
    _Known(
        r"Authentication failed|could not read (Username|Password)|terminal prompts disabled|Permission denied \("
        r"|returned error: 40[13]|Access denied|Too many authentication failures",
        "RepositoryRefused",
        f"{FIELD}.secretName",
        "the server of {repository} denies access; name a Secret whose credentials can read it",
    ),
    _Known(
        r"Host key verification failed|REMOTE HOST IDENTIFICATION HAS CHANGED",
        "HostKeyRefused",
        f"{FIELD}.secretName",
        "the host key of {repository} does not match known_hosts; fix that key of the Secret",
    ),
    _Known(
        r"[Rr]epository .*not found|returned error: 404|does not appear to be a git repository|Repository not found",
        "RepositoryNotFound",
        f"{FIELD}.repository",
        "there is no repository at {repository}, or the credentials do not allow access to it",
    ),
    _Known(
        r"SSL certificate problem|certificate verification failed|unable to get local issuer certificate",
        "CertificateRefused",
        f"{FIELD}.repository",
        "the certificate of {repository} is not trusted; add the CA's certificate to the Secret as ca.crt",
    ),
    _Known(
        r"mismatched algorithms|unknown (repository )?(object format|hash algorithm)",
        "CommitNotFound",
        f"{FIELD}.revision",
        "{repository} identifies commits by a different kind of hash than {revision}",
    ),
    _Known(
        r"transport '.*' not allowed|protocol .* not (supported|allowed)",
        "RepositoryRefused",
        f"{FIELD}.repository",
        "{repository} leads to a protocol other than https and ssh",
    ),
    _Known(
        r"[Uu]nable to find remote helper|cannot run ssh|ssh: not found|remote-https. is not a git command",
        "GitNotUsable",
        f"{FIELD}.image",
        "the image's git cannot access {repository}; name an image whose git can",
    ),
)
# The server serves only the commits that its branches and tags point at.
UNADVERTISED = re.compile(r"unadvertised object|does not allow request for")
NO_COMMIT = re.compile(r"not our ref|couldn't find remote ref|no such remote ref|bad object|not a valid object")


def classify_words(output: str, *, repository: str, revision: str) -> FetchProblem:
    """`output`: git's standard error."""
    if NO_COMMIT.search(output):
        return commit_not_found(repository, revision)
    detail = last_words(output)
    for known in _KNOWN:
        if re.search(known.pattern, output):
            what = known.what.format(repository=repository, revision=revision)
            return configuration(known.reason, f"{known.field}: {what} ({detail})")
    message = f"{FIELD}.repository: {repository} cannot be fetched: {detail}"
    return FetchProblem(Failure(FailureClass.INFRASTRUCTURE, "SourceNotFetched", message))


def configuration(reason: str, message: str) -> FetchProblem:
    return FetchProblem(Failure(FailureClass.CONFIGURATION, reason, message))


def commit_not_found(repository: str, revision: str) -> FetchProblem:
    message = f"{FIELD}.revision: {repository} has no commit {revision}, or does not serve it to these credentials"
    return configuration("CommitNotFound", message)


def last_words(output: str) -> str:
    """The lines that report an error, on one line, without git's advice."""
    lines = [line.strip() for line in output.splitlines() if line.strip() and not line.startswith("hint:")]
    errors = [line for line in lines if re.match(r"(fatal|error|remote|ssh):? ", line)]
    return "; ".join((errors or lines)[-3:])[:600] or "git printed nothing"
