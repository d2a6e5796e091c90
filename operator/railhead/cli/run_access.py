"""The options of all commands that read the files of a run, and the way to those."""

from __future__ import annotations

import argparse
import sys
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

from railhead.cli.output import Console

if TYPE_CHECKING:
    from railhead.api.base import Object
    from railhead.client.cluster import Cluster
    from railhead.client.run_files import RunFiles


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options."""
    run = parser.add_argument_group("files of the run")
    run.add_argument("--folder", metavar="PATH|URI", help="a copy of the run's folder, on this machine or in a store")
    run.add_argument("--reader-image", metavar="IMAGE", help="with python3, for a claim that no pod mounts")


def open_files(options: argparse.Namespace, cluster: Cluster, job: Object) -> AbstractAsyncContextManager[RunFiles]:
    """Opens the files of the job's run."""
    from railhead.client.open_run import Access, open_run

    access = Access(options.folder, options.reader_image, options.kubeconfig, options.context, remark)
    return open_run(cluster, job, access)


def remark(text: str) -> None:
    """Says what is no output of the command, on standard error."""
    Console(sys.stderr).line(f"railhead: {text}")
