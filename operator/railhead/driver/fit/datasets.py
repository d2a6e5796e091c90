"""Turns the job's input into Ray Data datasets, built in the driver: lists files, reads none of their rows.

Needs a driver that has joined Ray. Every error is one sentence that begins with the field.
"""

from __future__ import annotations

from railhead.contract.job_input import JobInput
from railhead.driver.container.user_code import has_parameter, load_function
from railhead.driver.messages.attempt_errors import AttemptFailed, JobRefused, Unreachable
from railhead.driver.messages.exception_text import describe_exception
from railhead.driver.messages.exit_words import note_exit_words
from railhead.driver.storage.storage_call import is_passing

READERS = {
    "parquet": "read_parquet",
    "csv": "read_csv",
    "json": "read_json",
    "text": "read_text",
    "images": "read_images",
    "binary": "read_binary_files",
}

REFUSED = "DatasetRefused"


def build_datasets(job: JobInput) -> dict[str, object]:
    """Returns each ray.data.Dataset by name. Raises JobRefused or Unreachable."""
    built: dict[str, object] = {}
    for name, dataset in job.datasets.items():
        if dataset.function:
            built[name] = _call(name, dataset.function, job)
        else:
            built[name] = _read(name, dataset.format, uri=dataset.uri)
    return built


def build_data_config(job: JobInput) -> object:
    """Returns a ray.train.DataConfig."""
    from ray.train import DataConfig

    return DataConfig(datasets_to_split=[name for name, each in job.datasets.items() if each.split])


def _read(name: str, format: str, *, uri: str) -> object:
    import ray.data

    try:
        return getattr(ray.data, READERS[format])(uri)
    except FileNotFoundError as error:
        hint = "the head pod does not see this file; all pods need the volume (spec.podTemplate)"
        raise JobRefused(REFUSED, f"datasets.{name}.uri {uri}: FileNotFoundError: {error}; {hint}") from error
    except Exception as error:
        # Without the location, which is in Ray and does not help.
        text = describe_exception(error.with_traceback(None))
        raise _build_error(error, f"datasets.{name}.uri {uri}: {text}") from error


def _call(name: str, reference: str, job: JobInput) -> object:
    import ray.data

    field = f"datasets.{name}.function {reference}"
    try:
        with note_exit_words():
            function = load_function(reference)
            if has_parameter(function):
                dataset = function(job.train_loop_config)
            else:
                dataset = function()
    except (Exception, SystemExit) as error:
        raise _build_error(error, f"{field}: {describe_exception(error)}") from error
    if not isinstance(dataset, ray.data.Dataset):
        raise JobRefused(REFUSED, f"{field}: it returned {type(dataset).__name__}; it must return a ray.data.Dataset")
    return dataset


def _build_error(error: BaseException, message: str) -> AttemptFailed:
    """Returns the error to raise: another attempt may help after one that passes by itself."""
    if is_passing(error):
        return Unreachable("DatasetOutOfReach", message)
    return JobRefused(REFUSED, message)
