"""Explains the errors of ranks that died by what their pods report. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Callable

from railhead.driver.messages.rank_errors import CAUSES_OF_DEATHS, RankErrorKind
from railhead.driver.rank.failure_words import LOADER, OF_CUDA, find_kind, quote_words
from railhead.driver.rank.pod_report import PodReport
from railhead.driver.train_controller.failures.classify_failure import RankError


def is_open(error: RankError) -> bool:
    """Returns whether the rank's pod may know more of it than its text says."""
    is_of_cuda = error.kind == RankErrorKind.GPU_LOST or (
        error.kind == RankErrorKind.RAISED and OF_CUDA.search(error.text) is not None
    )
    return is_of_cuda or _is_of_a_death(error)


def _is_of_a_death(error: RankError) -> bool:
    return error.kind == RankErrorKind.DIED or (error.kind == RankErrorKind.RAISED and LOADER in error.text)


def explain_errors(
    errors: tuple[RankError, ...],
    reports: Mapping[int, PodReport],
    *,
    has_trained: Callable[[int], bool],
) -> tuple[RankError, ...]:
    """Returns the errors with their causes, without those of ranks that died of another's cause.

    `reports`: of the ranks whose pods answered.
    """
    explained = tuple(
        _explain(each, reports[each.rank], has_trained=has_trained(each.rank)) if each.rank in reports else each
        for each in errors
    )
    kinds = {each.kind for each in explained}
    is_explained = bool(kinds & CAUSES_OF_DEATHS)

    def has_cause(error: RankError) -> bool:
        if error.kind != RankErrorKind.DIED or (error.rank in reports and reports[error.rank].words):
            return True
        # What others say of the network is what a process that was killed looks like to them.
        return not is_explained and (
            error.rank in reports or not kinds.intersection((RankErrorKind.NETWORK, RankErrorKind.SIGNALLED))
        )

    return tuple(each for each in explained if has_cause(each))


def _explain(error: RankError, report: PodReport, *, has_trained: bool) -> RankError:
    if report.lost_gpus:
        text = f"{report.lost_gpus} of the {report.gpus} GPUs of its pod no longer answer NVML"
        return replace(error, kind=RankErrorKind.GPU, text=f"{text} ({error.text})")
    if not _is_of_a_death(error):
        return error
    kind = find_kind(report.words, has_trained=has_trained)
    if error.kind == RankErrorKind.RAISED and kind != RankErrorKind.SHARED_MEMORY:
        # The function has raised an error of its own, whatever else its runtimes said.
        kind = None
    if not report.words or (error.kind == RankErrorKind.RAISED and not kind):
        return error
    return replace(error, kind=kind or error.kind, text=f"{quote_words(report.words)} ({error.text})")
