"""Run the operator: watch TrainJobs and do what they need."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os

LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kubeconfig", help="default: the pod's own service account")
    parser.add_argument("--namespace", default="railhead-system", help="where the operator itself lives")
    parser.add_argument(
        "--watch-namespace",
        action="append",
        default=[],
        metavar="NAMESPACE",
        help="run the jobs of this namespace only (may be repeated; default: all)",
    )
    parser.add_argument("--report-listen", default="0.0.0.0:8443", metavar="HOST:PORT", help="report endpoint")
    parser.add_argument("--report-url", required=True, metavar="URL", help="base URL of the endpoint, as pods reach it")
    parser.add_argument("--probe-listen", default="0.0.0.0:8080", metavar="HOST:PORT", help="/healthz and /readyz")
    parser.add_argument("--concurrency", type=int, default=8, help="jobs looked at at a time")
    parser.add_argument("--log-level", default="INFO", choices=["DEBUG", "INFO", "WARNING", "ERROR"])


def run(options: argparse.Namespace) -> int:
    if options.kubeconfig:
        os.environ["KUBECONFIG"] = options.kubeconfig  # kopf's own login reads it
    # Imported here, because kopf takes longer to load than the other commands take in all.
    from railhead.controller.app import run_operator
    from railhead.controller.config import OperatorConfig

    logging.basicConfig(level=options.log_level, format=LOG_FORMAT)
    config = OperatorConfig(
        kubeconfig=options.kubeconfig,
        namespace=options.namespace,
        watch_namespaces=tuple(options.watch_namespace),
        report_listen=options.report_listen,
        report_url=options.report_url,
        probe_listen=options.probe_listen,
        concurrency=options.concurrency,
    )
    asyncio.run(run_operator(config))
    return 0
