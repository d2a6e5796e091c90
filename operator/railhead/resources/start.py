"""The command of a pod's containers: checks the driver before it runs it.

It runs a copy: the kubelet would update the mounted file if somebody replaced the ConfigMap.
"""

from __future__ import annotations

from railhead.contract.digest import CHARS
from railhead.contract.failure import FailureClass
from railhead.resources.bundle import BUNDLE_FILE
from railhead.resources.folders import BUNDLE_PATH, TERMINATION_LOG

# Arguments: the mounted driver, its digest, the copy, the file for the termination message, the role.
START = f"""\
import hashlib, os, sys
mounted, digest, copy, log, role = sys.argv[1:]
with open(mounted, "rb") as file:
    driver = file.read()
if hashlib.sha256(driver).hexdigest()[:{CHARS}] != digest:
    text = "railhead: somebody replaced the ConfigMap with the driver, which ends with " + digest + "; delete it"
    print(text, file=sys.stderr)
    with open(log, "w") as file:
        file.write(text)
    sys.exit({FailureClass.INFRASTRUCTURE.exit_code})
os.makedirs(os.path.dirname(copy), exist_ok=True)
with open(copy, "wb") as file:
    file.write(driver)
os.execv(sys.executable, [sys.executable, copy, role])
"""


def build_start(role: str, *, digest: str, folder: str) -> list[str]:
    """`folder`: a writable one, for the copy. Isolated: nothing in the image's working directory is imported."""
    return ["python3", "-I", "-S", "-c", START, BUNDLE_PATH, digest, find_copy(folder), TERMINATION_LOG, role]


def find_copy(folder: str) -> str:
    """The driver that runs."""
    return f"{folder}/{BUNDLE_FILE}"
