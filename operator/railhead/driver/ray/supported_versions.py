"""The versions of Ray that Railhead knows, and what each of them lacks. Pure.

The version is that of the image's metadata. It is checked before Ray starts, so that a job never fails half-way for
lack of a feature. docs/internals/ray-train.md has the same as a table.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Callable, Optional

from railhead.contract.job_input import JobInput
from railhead.contract.report import END_NOT_ANNOUNCED, RAY_NOT_TESTED, RunWarning
from railhead.driver.container.packages import Version, parse_version, write_version

OLDEST: Version = (2, 52)
TESTED: Version = (2, 60)  # the newest
NOTICES: Version = (2, 58)  # ray.train.get_preemption_info


@dataclass(frozen=True)
class Feature:
    """A field that needs a Ray newer than OLDEST; `is_used` tells whether a job uses it."""

    field: str
    since: Version
    is_used: Callable[[JobInput], bool]


FEATURES = (
    Feature("trainer.validationFunction", (2, 54), attrgetter("validation_function")),
    Feature("scaling.minWorkers", (2, 55), attrgetter("is_elastic")),
    Feature("scaling.rayLabelSelector", (2, 55), attrgetter("scaling.ray_label_selector")),
    Feature("worker.drainSeconds", NOTICES, attrgetter("is_drain_required")),
    Feature("run.logLevel", (2, 56), attrgetter("log_level")),
)


def explain_ray_problem(version: str, job: JobInput) -> str:
    """Returns why this Ray cannot run this job, or an empty string. Accepts a version that it cannot parse."""
    if not version:
        return f"spec.image has no Ray for {sys.executable}; use an image with Ray {write_version(OLDEST)} or newer"
    found = parse_version(version)
    if found is None:
        return ""
    if found < OLDEST:
        return (
            f"spec.image has Ray {version}, but Railhead needs Ray {write_version(OLDEST)} or newer "
            f"(older ones cannot authenticate); use an image with a newer Ray"
        )
    for feature in FEATURES:
        if found < feature.since and feature.is_used(job):
            return (
                f"{feature.field} needs Ray {write_version(feature.since)} or newer, but spec.image has Ray {version}; "
                f"use an image with a newer Ray, or remove the field"
            )
    return ""


def drop_unsupported_defaults(version: str, job: JobInput) -> JobInput:
    """Returns the job without the default of worker.drainSeconds if this Ray cannot notify the ranks."""
    if job.is_drain_required or has_notices(version):
        return job
    return replace(job, drain_seconds=0)


def warn_without_notices(version: str, *, end_seconds: float) -> Optional[RunWarning]:
    """Returns a warning if the job wants a checkpoint before its end and this Ray cannot ask its function for one."""
    if end_seconds <= 0 or has_notices(version):
        return None
    message = (
        f"spec.image has Ray {version}, which cannot notify the training function that the run ends: spec.suspend, a "
        "drain of the head and spec.activeDeadlineSeconds keep only the last committed checkpoint, and the next one if "
        f"it comes within spec.suspendGraceSeconds; use an image with Ray {write_version(NOTICES)} or newer"
    )
    return RunWarning(END_NOT_ANNOUNCED, message)


def warn_of_newer_ray(version: str) -> Optional[RunWarning]:
    """Returns a warning if Railhead was never tested with this Ray."""
    if (parse_version(version) or TESTED) <= TESTED:
        return None
    message = (
        f"spec.image has Ray {version}, and this version of Railhead is tested up to Ray {write_version(TESTED)}: all "
        "that it needs of Ray was found, but may behave differently; use a tested Ray, or upgrade the operator"
    )
    return RunWarning(RAY_NOT_TESTED, message)


def has_notices(version: str) -> bool:
    return (parse_version(version) or NOTICES) >= NOTICES
