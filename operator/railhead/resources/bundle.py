"""The driver bundle, and how a container starts it: `contract/`, `driver/` and `training/` as one zipapp.

With it an image needs no part of Railhead. The build is reproducible, and the ConfigMap's name carries the bundle's
hash: two versions of the operator can run side by side in one namespace. The command of a container checks the driver
and runs a copy: the kubelet would update the mounted file if the ConfigMap were replaced.
"""

from __future__ import annotations

import base64
import functools
import io
import zipfile
from pathlib import Path

import railhead
from railhead._version import __version__
from railhead.contract.digest import CHARS, digest
from railhead.contract.failure import FailureClass
from railhead.json_object import Object
from railhead.resources.base import OperatorSettings, build_immutable, build_shared_metadata

BUNDLE_FILE = "railhead.pyz"
PACKAGES = ("contract", "driver", "training")
# Python imports it at the start of each Ray process, because the bundle is the first on their PYTHONPATH.
SITECUSTOMIZE = "from railhead.driver.site import customize\n\ncustomize(__file__)\n"
MAIN = "from railhead.driver.__main__ import main\n\nif __name__ == '__main__':\n    main()\n"
BUNDLE_FOLDER = "/opt/railhead"
BUNDLE_PATH = f"{BUNDLE_FOLDER}/{BUNDLE_FILE}"
INPUT_FOLDER = "/etc/railhead/input"
SOURCE_FOLDER = "/etc/railhead/source"
SOURCE_VOLUME = "railhead-source"
AUTH_FOLDER = "/etc/railhead/auth"
TEMP_FOLDER = "/tmp/railhead"
TERMINATION_LOG = "/dev/termination-log"
# Arguments: the mounted driver, its digest, the copy, the file for the termination message, the role.
START = f"""\
import hashlib, os, sys
mounted, digest, copy, log, role = sys.argv[1:]
with open(mounted, "rb") as file:
    driver = file.read()
if hashlib.sha256(driver).hexdigest()[:{CHARS}] != digest:
    text = "railhead: the ConfigMap with the driver, which ends with " + digest + ", was replaced; delete it"
    print(text, file=sys.stderr)
    with open(log, "w") as file:
        file.write(text)
    sys.exit({FailureClass.INFRASTRUCTURE.exit_code})
os.makedirs(os.path.dirname(copy), exist_ok=True)
with open(copy, "wb") as file:
    file.write(driver)
os.execv(sys.executable, [sys.executable, copy, role])
"""


@functools.cache
def build_bundle() -> bytes:
    """Returns the zipapp's bytes, read from the installed package."""
    files = {
        "__main__.py": MAIN.encode(),
        "sitecustomize.py": SITECUSTOMIZE.encode(),
    }
    root = Path(railhead.__file__).parents[1]
    for name in ("railhead/__init__.py", "railhead/_version.py"):
        files[name] = (root / name).read_bytes()
    for package in PACKAGES:
        sources = (root / "railhead" / package).rglob("*.py")
        files |= {path.relative_to(root).as_posix(): path.read_bytes() for path in sources}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files):
            info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            info.external_attr = 0o644 << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, files[name])
    return buffer.getvalue()


def bundle_name(bundle: bytes) -> str:
    return f"railhead-driver-{__version__.replace('.', '-')}-{digest(bundle)}"


def build_bundle_config_map(settings: OperatorSettings, *, namespace: str) -> Object:
    """Returns the ConfigMap of a namespace and version. No job owns it: all jobs share it."""
    metadata = build_shared_metadata(namespace, settings.bundle_name, settings.common_metadata)
    data = {BUNDLE_FILE: base64.b64encode(settings.bundle).decode()}
    return build_immutable("ConfigMap", metadata, binaryData=data)


def build_start(role: str, *, digest: str, folder: str) -> list[str]:
    """Returns the command. It copies the driver to `folder`, and imports nothing from the image's working directory."""
    return ["python3", "-I", "-S", "-c", START, BUNDLE_PATH, digest, build_copy_path(folder), TERMINATION_LOG, role]


def build_copy_path(folder: str) -> str:
    """Returns the path of the driver that runs."""
    return f"{folder}/{BUNDLE_FILE}"
