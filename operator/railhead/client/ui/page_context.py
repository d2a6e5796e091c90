"""What all pages of one `railhead ui` share."""

from __future__ import annotations

from dataclasses import dataclass

from railhead.client.ui.live_job import LiveJob
from railhead.client.ui.live_jobs import LiveJobs
from railhead.client.ui.live_run import LiveRun
from railhead.client.ui.page_source import PageSource, TrainJobName
from railhead.client.ui.shared import Shared


@dataclass
class PageContext:
    """The jobs and runs that viewers share.

    Attributes:
        is_dark: what the user has chosen; None = as the browser says.
    """

    source: PageSource
    jobs: LiveJobs
    details: Shared[LiveJob]
    runs: Shared[LiveRun]
    is_dark: bool | None = None


def build_context(source: PageSource) -> PageContext:
    """Returns a context whose `jobs.run()` must run."""
    jobs = LiveJobs(source)

    def make_job(key: TrainJobName) -> LiveJob:
        return LiveJob(source, jobs, key)

    details = Shared(make_job)

    def make_run(key: TrainJobName) -> LiveRun:
        return LiveRun(source, details, key)

    return PageContext(source, jobs, details, Shared(make_run))
