"""A job as a row of the table."""

from __future__ import annotations

import json

import pytest

from railhead.client.cluster.job_rows import read_record
from railhead.client.ui.job_grid import FOR_WIDE, build_options, count_phases, make_row
from railhead.client.ui.jobs_view import COLUMNS, SORTS, read_sort
from tests.unit.client.jobs import make_failed, make_job, make_running

GOODPUT = {"percent": "93.1", "wallSeconds": 100, "productiveSeconds": 93}
PROGRESS = {"percentComplete": 42, "step": 7, "estimatedRemainingSeconds": 12_000}


def test_a_row_has_numbers_to_sort_by() -> None:
    row = make_row(read_record(make_running(progress=PROGRESS, goodput=GOODPUT)))
    assert (row["id"], row["phase"], row["percent"], row["left"]) == ("team-a/digits", "Running", 42, 12_000)
    assert (row["progress"], row["goodput"]) == ("42%", 93.1)
    assert row["created"] == 1795600800000


def test_what_is_not_known_has_no_number() -> None:
    job = make_failed("Application", "TrainFunctionRaised", progress={})
    job["status"]["progress"] = PROGRESS
    job["status"]["goodput"] = {**GOODPUT, "percent": "NaN"}
    job["metadata"]["creationTimestamp"] = "?"
    row = make_row(read_record(job))
    assert (row["left"], row["goodput"], row["created"]) == (None, None, None)


def test_text_of_the_cluster_is_cleaned_and_keys_are_constants() -> None:
    job = make_failed("Application", ":reason\x1b[2J\u202e")
    row = make_row(read_record(job))
    assert "\\u001b" not in json.dumps(row)
    assert "\\u202e" not in json.dumps(row)
    assert set(row) == {"id", "progress", *COLUMNS}


def test_the_table_has_a_column_per_field_and_no_rows() -> None:
    options = build_options(has_namespace=True)
    fields = [column["field"] for column in options["columnDefs"]]  # type: ignore[attr-defined]
    assert fields == [*COLUMNS[:8], "waits", "created"]
    assert set(FOR_WIDE) < set(fields)
    assert "rowData" not in options
    without = build_options(has_namespace=False)
    assert len(without["columnDefs"]) == len(fields) - 1  # type: ignore[arg-type]


def test_phases_are_counted_the_most_frequent_first() -> None:
    records = [read_record(job) for job in (make_running(), make_running(), make_job())]
    assert count_phases(records) == [("Running", 2), ("(not seen)", 1)]


def test_the_sort_is_that_of_the_sorted_column() -> None:
    assert read_sort([{"colId": "gpus", "sort": None}, {"colId": "percent", "sort": "desc"}]) == "-percent"
    assert "-percent" in SORTS


@pytest.mark.parametrize(
    "columns",
    [None, {}, [1], [{"colId": "x", "sort": "asc"}], [{"colId": ["name"], "sort": "asc"}], [{"sort": "asc"}]],
)
def test_what_a_browser_says_about_its_columns_is_not_trusted(columns: object) -> None:
    assert read_sort(columns) == ""
