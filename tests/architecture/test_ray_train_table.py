"""docs/internals/ray-train.md lists every public name and option of the installed Ray Train, with correct rows.

test_documents.py checks that the tests it names exist.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

from railhead.driver.ray import supported_versions

PROJECT = Path(__file__).resolve().parents[2]
NO_FIELD = "\N{EN DASH}"
TABLE = PROJECT / "docs" / "internals" / "ray-train.md"
ROW = re.compile(r"^\| `([^`]+)` \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
FIELD = re.compile(r"`([^`]+)`")
TEST = re.compile(r"tests/[\w/]+\.py::\w+")
CONFIGS = (
    "ScalingConfig",
    "RunConfig",
    "LoggingConfig",
    "FailureConfig",
    "CheckpointConfig",
    "DataConfig",
    "ValidationConfig",
    "ValidationTaskConfig",
)
# Parsed, not imported: two frameworks in one process may conflict.
FRAMEWORKS = {
    "TorchConfig": "train/torch/config.py",
    "TensorflowConfig": "train/tensorflow/config.py",
    "XGBoostConfig": "train/xgboost/config.py",
    "LightGBMConfig": "train/lightgbm/config.py",
    "JaxConfig": "train/v2/jax/config.py",
}


def rows() -> dict[str, tuple[str, str]]:
    found = ROW.findall(TABLE.read_text().partition("## Configs")[2])
    names = [name for name, _, _ in found]
    assert len(names) == len(set(names)), "a name is listed twice"
    return {name: (field, why) for name, field, why in found}


@pytest.fixture(scope="module")
def public() -> set[str]:
    """The public names and options of the installed Ray Train."""
    import ray.train
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

    names = {f"ray.train.{name}" for name in ray.train.__all__}
    for config in CONFIGS:
        names |= {f"{config}.{option}" for option in inspect.signature(getattr(ray.train, config)).parameters}
    names |= {f"DataParallelTrainer.{option}" for option in inspect.signature(DataParallelTrainer).parameters}
    names |= {f"report({option})" for option in inspect.signature(ray.train.report).parameters}
    folder = Path(ray.__file__).parent
    for name, file in FRAMEWORKS.items():
        names |= {f"{name}.{option}" for option in read_options(folder / file, name)}
    return names


def read_options(file: Path, name: str) -> Iterator[str]:
    """The fields of a dataclass."""
    [config] = [n for n in ast.parse(file.read_text()).body if isinstance(n, ast.ClassDef) and n.name == name]
    for line in config.body:
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
            yield line.target.id


def test_every_public_name_of_ray_train_is_in_the_table(public: set[str]) -> None:
    assert public - set(rows()) == set(), "add to docs/internals/ray-train.md which field it has, or why it has none"


def test_the_table_lists_nothing_that_ray_lacks(public: set[str]) -> None:
    assert set(rows()) - public == set()


def test_every_field_in_the_table_is_a_trainjob_field() -> None:
    """Another test compares those of docs/reference/spec.md with the CRD."""
    reference = (PROJECT / "docs" / "reference" / "spec.md").read_text()
    known = set(re.findall(r"^\| `spec\.([^`]+)` \|", reference, re.MULTILINE))
    named = {
        field for field_cell, _ in rows().values() if field_cell != NO_FIELD for field in FIELD.findall(field_cell)
    }
    assert named - known == set()


def test_every_row_names_a_test_or_a_reason() -> None:
    """A field has a test, or is an object whose options have their own rows."""
    incomplete = []
    for name, (field, why) in rows().items():
        has_option_rows = why.startswith("see ") and any(row.startswith(f"{_last_word(why, name)}.") for row in rows())
        if not (TEST.search(why) or (field == NO_FIELD and len(why.split()) >= 3) or has_option_rows):
            incomplete.append(name)
    assert incomplete == []


def _last_word(why: str, name: str) -> str:
    return name.rpartition(".")[2] if why == "see above" else why.split()[-1]


def test_fields_that_need_a_newer_ray_are_listed_with_the_version_the_driver_requires() -> None:
    section = TABLE.read_text().partition("## Which Ray")[2].partition("\n## ")[0]
    for feature in supported_versions.FEATURES:
        version = ".".join(map(str, feature.since))
        assert re.search(rf"^\| `{re.escape(feature.field)}`[^|]*\| {version} \|", section, re.MULTILINE), feature.field


def test_the_pinned_ray_is_installed() -> None:
    """The table describes the Ray of constraints.txt."""
    pins = (PROJECT / "constraints.txt").read_text()
    assert re.search(rf"^ray(\[\w+\])?=={re.escape(metadata.version('ray'))} ", pins, re.MULTILINE)
