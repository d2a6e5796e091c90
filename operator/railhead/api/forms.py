"""Describes the form that a text must have, for each pattern of the TrainJob's schema.

The API server and pydantic name only the regular expression that a value does not match, which tells most users little.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

FORMS: Mapping[str, str] = {
    r"^[A-Za-z0-9]([-A-Za-z0-9._/:@]*[A-Za-z0-9])?$": "must be an image such as registry.example/team/train:1",
    r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$": "must be a name of lower-case letters, digits, '-' and '.', such as my-claim",
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$": "must be a name of lower-case letters, digits and '-', such as loss-is-nan",
    r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*:[A-Za-z_][A-Za-z0-9_]*$": (
        "must be MODULE:FUNCTION, such as train:train_func for the function train_func of train.py"
    ),
    r"^[-._a-zA-Z0-9]+$": "must be a key of letters, digits, '-', '_' and '.', such as train.py",
    r"^(\.?[-A-Za-z0-9_][-A-Za-z0-9_.]*/)*\.?[-A-Za-z0-9_][-A-Za-z0-9_.]*$": (
        "must be a relative path of letters, digits, '-', '_' and '.', such as src/train.py, without .."
    ),
    r"^[0-9]+(\.[0-9]{1,6})?(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?$": (
        "must be a quantity such as 4, 500m, 4G or 4Gi; the unit is G or Gi, not GB"
    ),
    r"^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$": (
        "must consist of letters, digits, '-', '_' and '.', and begin and end with a letter or digit"
    ),
    r"^!?([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?|in\([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
    r"(, ?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)*\))$": (
        "must be a value such as a100, !a100 for any other one, or in(a100, h100) for one of several"
    ),
    r"^(/[^/\pC\pZ][^\pC\pZ]*|(s3|gs|gcs|abfs|abfss)://[^\pC\pZ]+)$": (
        "must be an absolute path such as /mnt/runs, or a URI that begins with s3://, gs:// or abfs://, and have no "
        "spaces, control characters or invisible ones"
    ),
    r"^(/[^/\pC\pZ]([^\pC\pZ]| )*|(s3|gs|gcs|abfs|abfss)://[^\pC\pZ]+)$": (
        "must be an absolute path such as /mnt/runs/digits, or a URI that begins with s3://, gs:// or abfs://, and "
        "have no control characters or invisible ones, a URI no spaces either"
    ),
    r"^([^\pC\pZ]| )*$": "must have no control characters or invisible ones, and no white space but spaces",
    r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$": (
        "must be the value of a label: letters, digits, '-', '_' and '.', with a letter or digit at both ends"
    ),
    r"^[A-Za-z_][A-Za-z0-9_]*$": "must be a name of letters, digits and '_' that does not begin with a digit",
    r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$": "must be a reason of one word, such as GPUFailed",
    r"^-?[0-9]+(\.[0-9]+)?(e[-+]?[0-9]{1,2})?%?$": "must be a number such as 0.5, 1e-3 or 5%",
    r"^[a-z0-9.-]+/[A-Za-z0-9._/-]+$": "must be a controller's name such as railhead.dev/operator",
    r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$": (
        "must be the key of a label, such as topology.kubernetes.io/zone"
    ),
}

# A rule in CEL that reads a quantity says this, too, after the message of the pattern.
_NO_QUANTITY = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$' evaluating rule: "
)
# Where a value has another type, the API server checks no rule in CEL, and tells that as one more error.
_RULES_NOT_CHECKED = (
    ", <nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the "
    "existing errors to complete validation"
)

_TYPES: Mapping[str, str] = {
    "array": "a list",
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
    "object": "an object with fields",
    "string": "a text",
}
# How to write a value of the type.
_NOTATIONS: Mapping[str, str] = {
    "array": " such as [a, b]",
    "boolean": " without quotes",
    "integer": " without quotes",
    "number": " without quotes",
}
_WRONG_TYPE = re.compile(r'in body must be of type (\w+): "(\w+)"')


def put_into_words(message: str) -> str:
    """Returns the message of the API server or of pydantic, with words in place of a pattern or the name of a type."""
    for pattern, words in FORMS.items():
        message = message.replace(f"in body should match '{pattern}'", words)
        message = message.replace(f"String should match pattern '{pattern}'", words)
    message = _WRONG_TYPE.sub(_describe_type, message)
    return message.replace(_NO_QUANTITY, "").replace(_RULES_NOT_CHECKED, "")


def _describe_type(found: re.Match[str]) -> str:
    """Returns the words for a value whose type is the second group of the match, and should be the first."""
    wanted = _TYPES.get(found[1], found[1])
    notation = _NOTATIONS.get(found[1], "")
    actual = _TYPES.get(found[2], found[2])
    return f"must be {wanted}{notation}; it is {actual}"
