"""What git says when it fails, as a class, a reason and a sentence for the user. Pure.

What is not known here may be different the next time, so it is tried again and is
Infrastructure in the end; what the user must mend is Configuration.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from railhead.contract.failure import Failure, FailureClass
from railhead.driver.errors import AttemptFailed

FIELD = "spec.source.git"


class FetchProblem(AttemptFailed):
    """The commit cannot be had."""

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
        "the server of {repository} refuses access; name a Secret whose credentials may read it",
    ),
    _Known(
        r"Host key verification failed|REMOTE HOST IDENTIFICATION HAS CHANGED",
        "HostKeyRefused",
        f"{FIELD}.secretName",
        "the host key of {repository} is not the one in known_hosts; mend that key of the Secret",
    ),
    _Known(
        r"[Rr]epository .*not found|returned error: 404|does not appear to be a git repository|Repository not found",
        "RepositoryNotFound",
        f"{FIELD}.repository",
        "there is no repository at {repository}, or its credentials may not see it",
    ),
    _Known(
        r"SSL certificate problem|certificate verification failed|unable to get local issuer certificate",
        "CertificateRefused",
        f"{FIELD}.repository",
        "the certificate of {repository} is not trusted; put the CA's certificate into the Secret as ca.crt",
    ),
    _Known(
        r"mismatched algorithms|unknown (repository )?(object format|hash algorithm)",
        "CommitNotFound",
        f"{FIELD}.revision",
        "{repository} names its commits by another kind of hash than {revision}",
    ),
    _Known(
        r"transport '.*' not allowed|protocol .* not (supported|allowed)",
        "RepositoryRefused",
        f"{FIELD}.repository",
        "{repository} leads to another protocol than https and ssh",
    ),
    _Known(
        r"[Uu]nable to find remote helper|cannot run ssh|ssh: not found|remote-https. is not a git command",
        "GitNotUsable",
        f"{FIELD}.image",
        "the git of the image cannot speak to {repository}; name an image whose git can",
    ),
)
# The server serves only what its branches and tags point at.
UNADVERTISED = re.compile(r"unadvertised object|does not allow request for")
NO_COMMIT = re.compile(r"not our ref|couldn't find remote ref|no such remote ref|bad object|not a valid object")


def classify_words(words: str, *, repository: str, revision: str) -> FetchProblem:
    """`words`: what git wrote to its standard error."""
    if NO_COMMIT.search(words):
        return commit_not_found(repository, revision)
    told = last_words(words)
    for known in _KNOWN:
        if re.search(known.pattern, words):
            what = known.what.format(repository=repository, revision=revision)
            return configuration(known.reason, f"{known.field}: {what} ({told})")
    message = f"{FIELD}.repository: {repository} cannot be fetched: {told}"
    return FetchProblem(Failure(FailureClass.INFRASTRUCTURE, "SourceNotFetched", message))


def configuration(reason: str, message: str) -> FetchProblem:
    return FetchProblem(Failure(FailureClass.CONFIGURATION, reason, message))


def commit_not_found(repository: str, revision: str) -> FetchProblem:
    message = f"{FIELD}.revision: {repository} has no commit {revision}, or does not give it to these credentials"
    return configuration("CommitNotFound", message)


def last_words(words: str) -> str:
    """The lines that name an error, on one line; git's advice is left out."""
    lines = [line.strip() for line in words.splitlines() if line.strip() and not line.startswith("hint:")]
    errors = [line for line in lines if re.match(r"(fatal|error|remote|ssh):? ", line)]
    return "; ".join((errors or lines)[-3:])[:600] or "git said nothing"
