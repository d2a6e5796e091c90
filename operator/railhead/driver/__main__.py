"""The pods' entry point: `head` and `worker`; `ray`, with which both start Ray's own command; `fetch`,
which runs before them in an init container; and `credential`, which answers git during the fetch.

Ray's command runs through this module rather than `python -m`, which would put the working
directory, and with it a user's `queue.py`, first on sys.path.
"""

from __future__ import annotations

import os
import sys

from railhead.driver.verified import use_verified


def main() -> None:
    role, arguments = (sys.argv[1] if len(sys.argv) > 1 else ""), sys.argv[2:]
    if role in ("head", "worker", "fetch"):
        os.environ.update(use_verified(os.environ))
    if role == "head":
        from railhead.driver.head import run_head

        run_head(os.environ)
    elif role == "worker":
        from railhead.driver.worker import run_worker

        run_worker(os.environ)
    elif role == "ray":
        from railhead.driver.ray.daemons import run_ray

        run_ray(arguments)
    elif role == "fetch":
        from railhead.driver.fetch import run_fetch

        run_fetch(os.environ)
    elif role == "credential":
        from railhead.driver.fetch import run_credential

        run_credential(arguments)
    else:
        sys.exit(f"railhead: unknown role {role!r}; this is the entry point of a TrainJob's pods (head or worker)")


if __name__ == "__main__":
    main()
