"""The paths and URIs of a spec: the rules that each of them keeps, in CEL for the API server and in Python.

Others read them in terminals, so they have only characters that are seen. A policy may allow the places below one
prefix, so no segment leads out of it.
"""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from railhead.api.model import rules

# An absolute path, or a URI that pyarrow supports: for storagePath, datasets and a checkpoint to start from.
# A folder's name in a path may have spaces; in a URI they are percent-encoded. `\pC` are control and format characters,
# such as those that begin an escape sequence or turn the writing direction; `\pZ` is white space.
CHECKPOINT = r"^(/[^/\pC\pZ]([^\pC\pZ]| )*|(s3|gs|gcs|abfs|abfss)://[^\pC\pZ]+)$"
LOCATION = r"^(/[^/\pC\pZ][^\pC\pZ]*|(s3|gs|gcs|abfs|abfss)://[^\pC\pZ]+)$"
PRINTABLE = r"^([^\pC\pZ]| )*$"  # what str.isprintable takes
# What opens a URI decodes it, so there the dots may be percent-encoded, and the slashes, too. HOST:PATH is git's.
DOTS = r"(?i)(^([^/]*:)?|/)[.][.]?(/|$)|:/.*(/|%2f)([.]|%2e){1,2}(/|%2f|[?#]|$)"
PARENTS = "(^|/)[.][.](/|[?#]|$)"
# A password, or for S3 any user, before the host; an `@` in the path does not count. A secret may contain slashes.
URI_SECRET = "^((s3|gs|gcs|abfs|abfss)://[^/?@]*:.*@|s3://[^/?]*@)"
QUERY_SECRET = (
    "(?i)[?&](access_key|access_key_id|secret_key|secret_access_key|session_token|account_key|sas_token|sig"
    "|client_secret|password|token)="
)

NO_DOTS = ("", f"!self.matches('{DOTS}')", "must not contain . or .. as a path segment")
NO_PARENTS = ("", f"!self.matches('{PARENTS}')", "must not contain .. as a path segment")
NO_CREDENTIALS = (
    "",
    f"!self.matches('{URI_SECRET}') && !self.matches('{QUERY_SECRET}')",
    "must not contain credentials, because they can be read here; put them into a Secret and name it in spec.envFrom",
)
_OF_LOCATION = rules(NO_DOTS, NO_CREDENTIALS)


def _check(pattern: str, text: str, rule: tuple[str, str, str]) -> str:
    if re.search(pattern, text):
        raise ValueError(rule[-1])
    return text


def check_segments(text: str) -> str:
    """Raises ValueError as the rule NO_DOTS does."""
    return _check(DOTS, text, NO_DOTS)


def _check_parents(text: str) -> str:
    return _check(PARENTS, text, NO_PARENTS)


def _check_location(text: str) -> str:
    _check(URI_SECRET, text, NO_CREDENTIALS)
    _check(QUERY_SECRET, text, NO_CREDENTIALS)
    return check_segments(text)


Location = Annotated[
    str,
    Field(min_length=1, max_length=1024, pattern=LOCATION, json_schema_extra=_OF_LOCATION),
    AfterValidator(_check_location),
]
CheckpointLocation = Annotated[
    str,
    Field(min_length=2, max_length=2048, pattern=CHECKPOINT, json_schema_extra=_OF_LOCATION),
    AfterValidator(_check_location),
]
# A path in the head pod, or a URI: of Ray's runtime_env. `.` is the folder with the code.
CodeLocation = Annotated[
    str,
    Field(min_length=1, max_length=1024, pattern=PRINTABLE, json_schema_extra=rules(NO_PARENTS)),
    AfterValidator(_check_parents),
]
FilePattern = Annotated[str, Field(min_length=1, max_length=1024, pattern=PRINTABLE)]  # as in a .gitignore
