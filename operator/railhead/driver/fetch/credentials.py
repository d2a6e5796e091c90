"""A git server's credentials from the folder of a mounted Secret, in the form that git and ssh expect.

Never passed as an argument, never printed except to git itself: for https git asks the entry point
`credential`, and ssh reads a copy of the key that only we can read.
"""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import Optional
from urllib.parse import urlsplit

from railhead.contract.failure import Failure, FailureClass
from railhead.driver.fetch.problem import FIELD, FetchProblem, configuration

USERNAME, PASSWORD = "username", "password"  # of Secrets of type kubernetes.io/basic-auth
PRIVATE_KEY = "ssh-privatekey"  # of type kubernetes.io/ssh-auth
KNOWN_HOSTS, CA = "known_hosts", "ca.crt"
ANY_USERNAME = "git"  # servers that accept tokens require some username


def read(folder: Path, key: str) -> Optional[str]:
    try:
        return (folder / key).read_text()
    except FileNotFoundError:
        return None


def check_credentials(folder: Path, *, repository: str, secret: str) -> None:
    """Raises FetchProblem when the Secret lacks what the repository's protocol needs, or does not exist (yet)."""
    is_https = repository.startswith("https://")
    wanted = (PASSWORD, CA) if is_https else (PRIVATE_KEY,)
    if any((folder / key).exists() for key in wanted):
        return
    if not folder.exists() or not any(folder.iterdir()):
        message = f"{FIELD}.secretName: there is no Secret {secret}; create it"
        raise FetchProblem(Failure(FailureClass.INFRASTRUCTURE, "SecretNotFound", message))
    needs = "password (with username) or ca.crt" if is_https else PRIVATE_KEY
    raise configuration("SecretNotUsable", f"{FIELD}.secretName: Secret {secret} has no {needs} for {repository}")


def answer_git(folder: Path, operation: str) -> str:
    """The output of git's credential helper; we store nothing that git sends."""
    password = read(folder, PASSWORD)
    if operation != "get" or password is None:
        return ""
    username = (read(folder, USERNAME) or ANY_USERNAME).strip()
    return f"username={username}\npassword={password.strip()}\n"


def build_helper(folder: Path, *, repository: str, bundle: str) -> list[str]:
    """git options that make it ask us, for this server only, even after a redirect to another one."""
    if not repository.startswith("https://"):
        return []
    server = f"https://{urlsplit(repository).netloc}"
    command = " ".join(shlex.quote(word) for word in (sys.executable, bundle, "credential", str(folder)))
    return ["-c", f"credential.{server}.helper=!{command}"]


def build_ssh_command(folder: Path, *, home: Path) -> str:
    """GIT_SSH_COMMAND. ssh rejects a key that others can read, and Secrets are mounted group-readable."""
    key = home / "key"
    text = read(folder, PRIVATE_KEY) or ""
    with open(os.open(key, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w") as file:
        file.write(text.rstrip("\n") + "\n")  # without a trailing newline ssh does not accept it as a key
    known = folder / KNOWN_HOSTS
    # Without known_hosts this trusts the server's host key, unless the image's own list has one for it.
    checked, hosts = ("yes", known) if known.exists() else ("accept-new", home / KNOWN_HOSTS)
    options = {
        "IdentitiesOnly": "yes",
        "BatchMode": "yes",
        "ConnectTimeout": "30",
        "ServerAliveInterval": "15",
        "StrictHostKeyChecking": checked,
        "UserKnownHostsFile": str(hosts),
    }
    arguments = ["ssh", "-F", "/dev/null", "-i", str(key)]
    for name, value in options.items():
        arguments += ["-o", f"{name}={value}"]
    return " ".join(shlex.quote(word) for word in arguments)
