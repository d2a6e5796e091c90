"""Starts a process of a pod in its role.

`head` and `worker` are a pod's containers, and `fetch` runs before them in an init container. `ray` is Ray's own
command, which both start; `archive` uploads their logs; `stacks` answers `railhead stacks`.

Ray's command runs through this module rather than `python -m`, which would put the working
directory, and with it a user's `queue.py`, first on sys.path.

Each role imports what it needs itself: uploads come often, and Python compiles all that they import.
"""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Runs the role that the first argument names."""
    role = sys.argv[1] if len(sys.argv) > 1 else ""
    arguments = sys.argv[2:]
    if role == "ray":
        from railhead.driver.ray.daemons import run_ray

        run_ray(arguments)
    elif role == "archive":
        from railhead.driver.archive.archive_upload import run_upload

        run_upload(*arguments)
    elif role == "stacks":
        from railhead.driver.head.stacks import run_stacks

        run_stacks(os.environ)
    elif role in ("head", "worker", "fetch"):
        run_container(role)
    else:
        sys.exit(f"railhead: unknown role {role!r}; this is the entry point of a TrainJob's pods (head or worker)")


def run_container(role: str) -> None:
    """Runs a container of a pod; ends with a termination message if the pod cannot begin with what it was given."""
    from railhead.contract.environment import TERMINATION_MESSAGE
    from railhead.driver.messages.attempt_errors import AttemptFailed
    from railhead.driver.pod.ending import end_process
    from railhead.driver.pod.mounted_input import check_content

    try:
        os.environ.update(check_content(os.environ))
        if role == "head":
            from railhead.driver.head.run_head import run_head

            run_head(os.environ)
        elif role == "worker":
            from railhead.driver.pod.worker import run_worker

            run_worker(os.environ)
        else:
            from railhead.driver.pod.fetch_source import run_fetch

            run_fetch(os.environ)
    except AttemptFailed as error:
        end_process(error.failure, os.environ.get(TERMINATION_MESSAGE))


if __name__ == "__main__":
    main()
