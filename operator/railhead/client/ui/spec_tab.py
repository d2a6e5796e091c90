"""What the job asks for, and the objects that the operator makes of it."""

from __future__ import annotations

import yaml
from nicegui import ui

from railhead.client.exit_codes import ClientError
from railhead.client.explain.past_job import PastSnapshot, describe_recorded
from railhead.client.submit.rendering import render_job
from railhead.client.ui.job_context import JobContext
from railhead.client.ui.look import card, label
from railhead.client.ui.viewing import Region
from railhead.json_object import Object

MOST_CHARACTERS = 400_000
LEFT_OUT = ("managedFields",)  # of the metadata


class SpecTab:
    """One viewer's texts."""

    def __init__(self, context: JobContext) -> None:
        self._context = context

    def build(self) -> None:
        with ui.element("div").classes("rh-columns"):
            with card("The TrainJob", "reference/spec.md"):
                self._spec = Region(ui.element("div").classes("rh-full"), self._build_text)
            with card("What the operator creates for an attempt", "how-to/command-line.md"):
                ui.label(
                    "By the operator's own planner, for the first attempt. Tokens are hidden, and admission in the "
                    "cluster may change the pods."
                ).classes("rh-quiet")
                self._objects = Region(ui.element("div").classes("rh-full"), self._build_text)

    async def run(self) -> None:
        job = self._context.job
        shown: tuple[object, object] | None = None
        while True:
            seen = job.version
            if job.snapshot is not None and shown != _identify(job.snapshot.job):
                shown = _identify(job.snapshot.job)
                self._spec.show(write_spec(job.snapshot.job))
                self._objects.show(write_objects(job.snapshot.job))
            await job.wait(seen)

    def _build_text(self, text: str) -> None:
        label(text, "rh-mono rh-code")


class RecordTab:
    """What the record of a run has of its spec, for one viewer."""

    def __init__(self, context: JobContext) -> None:
        self._context = context

    def build(self) -> None:
        with card("What the record of the run has", "reference/run-folder.md#the-record"):
            self._record = Region(ui.element("div").classes("rh-full"), self._build_text)

    async def run(self) -> None:
        job = self._context.job
        while True:
            seen = job.version
            if isinstance(job.snapshot, PastSnapshot):
                self._record.show(_dump(describe_recorded(job.snapshot.record)))
            await job.wait(seen)

    def _build_text(self, text: str) -> None:
        label(text, "rh-mono rh-code")


def _identify(job: Object) -> tuple[object, object]:
    """Returns what changes with the spec."""
    return job["metadata"].get("uid"), job["metadata"].get("generation")


def write_spec(job: Object) -> str:
    """Returns the TrainJob as YAML, without its status."""
    metadata = {name: value for name, value in job["metadata"].items() if name not in LEFT_OUT}
    shown = {**{name: value for name, value in job.items() if name != "status"}, "metadata": metadata}
    return _dump(shown)


def write_objects(job: Object) -> str:
    """Returns the objects as YAML, or why there are none."""
    try:
        return "---\n".join(_dump(body) for body in render_job(job))
    except ClientError as error:
        return str(error)


def _dump(value: object) -> str:
    text = yaml.safe_dump(value, sort_keys=False, width=120, allow_unicode=True)
    if len(text) > MOST_CHARACTERS:
        return f"{text[:MOST_CHARACTERS]}\n({len(text) - MOST_CHARACTERS} more characters)\n"
    return text
