"""Writes the texts that others may read: descriptions of exit codes and exceptions, and the driver's log. None has a
credential, and nothing in them fails.

The exceptions are the user's: the text may contain characters that cannot be encoded, and `__str__` may raise. The
texts of libraries contain URLs, headers and values of variables. Every exception's text has its credentials hidden, and
so has each line of the driver's log, and each message of an outcome or a report that is built from what other programs
print.

Ray passes an error on from another process, such as a Ray Data task, as a text with the tracebacks of all processes
involved, one below the other. The user's own exception may appear only in that text: its class is not sent along.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import os
import re
import signal
import sysconfig
import time
import traceback
from pathlib import PurePath
from typing import Iterator, Mapping, Sequence
from urllib.parse import quote

from railhead.contract.environment import FROM_SECRET
from railhead.contract.outcome import shorten_middle

TEXT_LIMIT = 4000  # characters per exception; a message with a tensor in it has millions
TRACEBACK_LIMIT = 64_000
_BEGAN = time.monotonic()
_NAME = type.__dict__["__name__"].__get__  # bypasses a metaclass


def make_printable(text: str) -> str:
    """Escapes what cannot be encoded, such as one half of a surrogate pair."""
    return str.encode(text, "utf-8", "backslashreplace").decode("utf-8")


def clean(text: str) -> str:
    """Printable and without credentials: for texts that others read."""
    return make_printable(redact(text, os.environ))


def log(text: str) -> None:
    """Prints a line of the driver's log, with the seconds since this process began."""
    with contextlib.suppress(OSError, ValueError):  # the user's code may have closed a rank's output
        print(f"railhead {time.monotonic() - _BEGAN:6.1f}s  {clean(text)}", flush=True)


def read_text(error: BaseException) -> str:
    """`str(error)`, clean; empty when `str` raises."""
    try:
        return clean(str(error))
    except BaseException:
        return ""


def name_class(error: BaseException) -> str:
    return make_printable(_NAME(type(error)))


def describe_exception(error: BaseException) -> str:
    """`Type: message (file, line n, in function)`, with the location of the innermost frame."""
    try:
        text = clean(_describe(error))
    except BaseException:
        text = f"{name_class(error)}: {read_text(error)}"
    return shorten_middle(text, TEXT_LIMIT)


def _describe(error: BaseException) -> str:
    if is_task_error(error):
        return describe_task_error(str(error))
    text = "".join(traceback.format_exception_only(type(error), error)).strip()
    frames = traceback.extract_tb(error.__traceback__)
    if not frames or isinstance(error, SyntaxError):
        return " ".join(text.split())
    last = frames[-1]
    if isinstance(error, SystemExit):
        last = _find_own(frames)
    return f"{text} ({PurePath(last.filename).name}, line {last.lineno}, in {last.name})"


def _find_own(frames: Sequence[traceback.FrameSummary]) -> traceback.FrameSummary:
    """Returns the innermost frame of the user's code, as argparse exits in its own; without one, the innermost."""
    libraries = (sysconfig.get_paths()["stdlib"], *("/site-packages/", "/dist-packages/", ".pyz/"))
    own = [frame for frame in frames if not any(library in frame.filename for library in libraries)]
    return (own or frames)[-1]


def format_traceback(error: BaseException) -> str:
    """As Python prints it, including the causes."""
    try:
        text = clean("".join(traceback.format_exception(type(error), error, error.__traceback__)))
    except BaseException:
        text = describe_exception(error) + "\n"
    return shorten_middle(text, TRACEBACK_LIMIT)


@contextlib.contextmanager
def never_raises(task: str) -> Iterator[None]:
    """Makes an exception a line in the log, which names the task: a run is as good without it."""
    try:
        yield
    except Exception as error:
        log(f"cannot {task}: {describe_exception(error)}")


def describe_exit(code: int) -> str:
    """Of a process in the head pod; `code` as Popen has it."""
    if code >= 0:
        return f"exited with code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    memory = ", as happens when the head pod runs out of memory (spec.head.resources)" if name == "SIGKILL" else ""
    return f"was killed by {name}{memory}"


HIDDEN = "(hidden)"
# Characters: what a Secret holds is hidden from 4 on, what only has the name of a credential from 6 on. Anything
# shorter is more likely an ordinary word in the message.
SHORTEST_OF_SECRET = 4
SHORTEST_BY_NAME = 6
SHORTEST_PART = 8  # below it, a value is hidden as a whole word only
# What Secrets hold besides credentials, and what any message may say.
_ORDINARY = re.compile(
    r"\d{1,5}|true|false|none|null|auto|default|enabled|disabled|root|admin|user|username|public|private|guest|test"
    r"|localhost|postgres|mysql|redis|http|https|bearer|basic",
    re.IGNORECASE,
)
_SECRET_NAME = re.compile(
    "KEY|SECRET|TOKEN|PASSW|PWD|CREDENTIAL|SAS|CONNECTION_STRING|AUTH(?!OR(?!IZ))|COOKIE|DSN|PRIVATE", re.IGNORECASE
)
_FOLDERS = ("PWD", "OLDPWD")  # of a shell
# Before a host: a user with a password, which may contain slashes, but not a port; of http and s3 also a user alone,
# which may be a token.
_USER = re.compile(
    r"\b((?:https?|s3)://(?=[^\s/?#@'\"]{1,500}@)"
    r"|[a-z][a-z0-9+.-]{0,20}://(?=[^\s/?#@:'\"]{0,200}:(?!\d+[/?#])[^\s'\"]{0,500}@))"
    r"[^\s'\"]{0,700}?@(?![^\s/?#'\"]{0,500}@)",
    re.IGNORECASE,
)
_QUERY = re.compile(
    r"([?&](?:access_key(?:_id)?|secret_key|secret_access_key|session_token|account_key|sas_token|sig|client_secret"
    r"|password|token|x-amz-(?:credential|signature|security-token))=)[^&\s'\"]+",
    re.IGNORECASE,
)
_HEADER = re.compile(r"(\bAuthorization\W{1,4}\w+ |\bBearer )[-\w.~+/=]{8,}", re.IGNORECASE)
_JWT = re.compile(r"eyJ[-\w]{8,1000}\.[-\w]{1,4000}\.[-\w]+")  # a service account's token


def redact(text: str, environment: Mapping[str, str]) -> str:
    """The text without the credentials in its URLs and headers, tokens of service accounts, and the values of variables
    that come from a Secret or whose names suggest credentials."""
    text = _USER.sub(rf"\1{HIDDEN}@", text)
    text = _QUERY.sub(rf"\1{HIDDEN}", text)
    text = _JWT.sub(HIDDEN, _HEADER.sub(rf"\1{HIDDEN}", text))
    secrets = _find_secrets(
        frozenset(value for name, value in environment.items() if name.startswith(FROM_SECRET)),
        frozenset(value for name, value in environment.items() if _SECRET_NAME.search(name) and name not in _FOLDERS),
    )
    return secrets.sub(HIDDEN, text)


@functools.lru_cache(maxsize=8)  # for each line of a log; a process seldom changes its environment
def _find_secrets(of_secrets: frozenset[str], by_name: frozenset[str]) -> re.Pattern[str]:
    """A pattern of all values to hide, also in the forms that requests and manifests give them."""
    found: set[str] = set()
    for values, shortest in ((of_secrets, SHORTEST_OF_SECRET), (by_name, SHORTEST_BY_NAME)):
        for value in values:
            # A key in PEM is printed line by line.
            for secret in {value.strip(), *(line.strip() for line in value.splitlines())}:
                if len(secret) >= shortest and not _ORDINARY.fullmatch(secret) and not _is_path(secret):
                    found |= _list_forms(secret)
    patterns = []
    for secret in sorted(found, key=lambda each: (-len(each), each)):
        pattern = re.escape(secret)
        if len(secret) < SHORTEST_PART:
            pattern = rf"(?<!\w){pattern}(?!\w)"
        patterns.append(pattern)
    return re.compile("|".join(patterns) or r"(?!)")


def _is_path(value: str) -> bool:
    """Whether the value is where a credential is, rather than the credential."""
    return value.startswith("/") and os.path.lexists(value)


def _list_forms(secret: str) -> set[str]:
    """The value itself, in a URL, and in base64."""
    data = secret.encode("utf-8", "backslashreplace")  # a Secret may have bytes that are no text
    forms = {secret, quote(data, safe="")}
    if len(secret) >= SHORTEST_PART:
        forms.add(base64.b64encode(data).decode().rstrip("="))
    return forms


def strip_credentials(uri: str) -> str:
    """The URI without them: whoever opens it has them from the environment."""
    base, mark, query = _USER.sub(r"\1", uri).partition("?")
    kept = [part for part in query.split("&") if part and not _QUERY.match(f"&{part}")]
    return f"{base}?{'&'.join(kept)}" if mark and kept else base


_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_LINKS = re.compile(
    r"^(?:The above exception was the direct cause of the following exception"
    r"|During handling of the above exception, another exception occurred):$",
    re.MULTILINE,
)
_TASK = re.compile(r"ray::(.+?)\(\) \(pid=")
_FRAME = re.compile(r'^  File "(.+)", line (\d+), in (.+)$')
# What Ray Data adds about its own retries, below the user's message.
_ADVICE = re.compile(r"^(?:Failed to .* attempts \(|To change retry attempts)")
_WRAPPER = "UserCodeException"  # Ray Data's; the exception above it is the user's


def is_task_error(error: BaseException) -> bool:
    return "RayTaskError" in {kind.__name__ for kind in type(error).__mro__}


def describe_task_error(text: str) -> str:
    """`Type: message (file, line n, in function; task NAME)` of the first error."""
    parts = _LINKS.split(_COLOUR.sub("", text))
    index = len(parts) - 1
    if index and _WRAPPER in "\n".join(_find_message(parts[index])).partition(":")[0]:
        index -= 1
    message = " ".join(" ".join(_find_message(parts[index])).split())
    place = _find_place(parts[index].splitlines())
    tasks = _TASK.findall("\n".join(parts[: index + 1]))
    where = "; ".join([*place, *([f"task {tasks[-1]}"] if tasks else [])])
    return f"{message} ({where})" if where else message


def _find_message(part: str) -> list[str]:
    """The lines below the last frame or the last task's name: the exception itself."""
    lines = part.strip("\n").splitlines()
    begin = 0
    for number, line in enumerate(lines):
        if line.startswith("  ") or _TASK.search(line):
            begin = number + 1
    return [line for line in lines[begin:] if not _ADVICE.match(line)]


def _find_place(lines: list[str]) -> list[str]:
    frames = [found for line in lines for found in [_FRAME.match(line)] if found]
    if not frames:
        return []
    file, line, function = frames[-1].groups()
    return [f"{file.rpartition('/')[2]}, line {line}, in {function}"]
