"""The stand-in for torch, with packages made for each test; tests/ray/test_contract.py has Ray's own."""

from __future__ import annotations

import copyreg
import importlib
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from railhead.driver.fit import torch_on_ranks

CONFIG = """
import tensors
import tensors.distributed as dist
from dataclasses import dataclass
from typing import List

@dataclass
class TorchConfig:
    backend: str = "gloo"

def start() -> List[tensors.Device]:
    assert dist.is_available()
    return tensors.ones(2)
"""


@pytest.fixture(autouse=True)
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """`tensors` is torch, and `trains` is Ray's package, which imports it at once."""
    for name, text in {
        "tensors/__init__.py": "import tensors.distributed\nDevice = str\nclass cuda: count = 3\n"
        "def ones(n): return [1] * n",
        "tensors/distributed.py": "def is_available(): return False",
        "trains/__init__.py": "import tensors\nfrom trains.config import TorchConfig",
        "trains/config.py": CONFIG,
    }.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    for constant, name in (
        ("PACKAGE", "trains"),
        ("CONFIG", "trains.config"),
        ("TORCH", "tensors"),
    ):
        monkeypatch.setattr(torch_on_ranks, constant, name)
    yield tmp_path
    for name in [name for name in sys.modules if name.partition(".")[0] in ("tensors", "trains")]:
        del sys.modules[name]
    for kind in [kind for kind in copyreg.dispatch_table if kind.__module__ == "trains.config"]:
        del copyreg.dispatch_table[kind]


def imported() -> set[str]:
    return {name for name in sys.modules if name.partition(".")[0] in ("tensors", "trains")}


def test_nothing_but_the_config_is_imported() -> None:
    module = torch_on_ranks.import_config()
    assert imported() == {"trains.config"}
    assert torch_on_ranks.import_config() is module


def test_torch_is_imported_once_something_is_done_with_it() -> None:
    module = torch_on_ranks.import_config()
    assert module.start() == [1, 1]  # asks the stand-in whether torch.distributed is there
    assert "tensors" in imported()
    assert module.tensors.cuda.count == 3
    assert importlib.import_module("trains").TorchConfig is module.TorchConfig


@pytest.mark.parametrize(
    "line", ["import tensors.absent.part", "tensors.ones(1)", "VERSION = tensors.__name__", "1 / 0"]
)
def test_a_ray_that_needs_torch_imports_it(packages: Path, line: str) -> None:
    (packages / "tensors" / "absent").mkdir()
    (packages / "tensors" / "absent" / "part.py").write_text("")
    needs = "import sys\nif 'trains.other' not in sys.modules: raise ValueError" if line == "1 / 0" else line
    (packages / "trains" / "config.py").write_text(f"{CONFIG}\n{needs}")
    (packages / "trains" / "other.py").write_text("")
    (packages / "trains" / "__init__.py").write_text("import trains.other, trains.config")
    assert torch_on_ranks.import_config().TorchConfig()
    assert {"tensors", "trains"} <= imported()
    assert not [name for name in imported() if isinstance(sys.modules[name], torch_on_ranks.StandIn)]


def test_a_torch_that_a_ray_needs_and_is_broken_is_the_loaders_to_report(packages: Path) -> None:
    (packages / "trains" / "config.py").write_text(f"{CONFIG}\ntensors.ones(1)")
    (packages / "tensors" / "__init__.py").write_text("raise OSError('libnccl.so.2: gone')")
    torch_on_ranks.leave_out_torch()
    assert imported() == set()
    with pytest.raises(OSError, match="gone"):
        torch_on_ranks.import_config()


def test_a_process_that_has_imported_torch_keeps_it() -> None:
    torch: Any = importlib.import_module("tensors")
    assert torch_on_ranks.import_config().tensors is torch


def test_who_receives_the_config_does_without_torch_too() -> None:
    torch_on_ranks.leave_out_torch()
    data = pickle.dumps(sys.modules["trains.config"].TorchConfig("nccl"))
    assert b"trains" not in data, "its class would be imported with its package"
    del sys.modules["trains.config"]
    assert pickle.loads(data).backend == "nccl"
    assert imported() == {"trains.config"}
