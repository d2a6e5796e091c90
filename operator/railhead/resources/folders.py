"""Mount paths in the pods."""

from __future__ import annotations

from railhead.resources.bundle import BUNDLE_FILE

BUNDLE_FOLDER = "/opt/railhead"
BUNDLE_PATH = f"{BUNDLE_FOLDER}/{BUNDLE_FILE}"
INPUT_FOLDER = "/etc/railhead/input"
SOURCE_FOLDER = "/etc/railhead/source"
SOURCE_VOLUME = "railhead-source"
AUTH_FOLDER = "/etc/railhead/auth"
TEMP_FOLDER = "/tmp/railhead"
TERMINATION_LOG = "/dev/termination-log"
