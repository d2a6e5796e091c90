"""Builds with Go, once per machine, the programs that the tests start: the control plane and helm. It also finds or
installs the browser for the tests of the page.

`make test` runs it beside the first tests. A test that needs a program before it is
built waits for it.
"""

from __future__ import annotations

import signal
import sys

from tools.chromium import NoBrowser, resolve_chromium
from tools.go_program import NotBuilt
from tools.helm import resolve_helm

from railhead.local import LocalError
from railhead.local.control_plane.binaries import resolve


def echo(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the compilers end with it
    try:
        resolve(echo)
        resolve_helm(echo)
        resolve_chromium(echo)
    except (LocalError, NotBuilt, NoBrowser) as error:
        echo(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
