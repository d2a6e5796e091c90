"""A framework that is missing or broken in an image: rejected with a message, with real Ray."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from railhead.contract.failure import FailureClass
from railhead.contract.job_input import RayNode, RayNodes, ScalingInput
from tests.ray.pods import Pods, make_job, make_single_job

# Hides a package in one pod, as in an image without it.
HIDES_TENSORFLOW = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "tensorflow":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hidden())
"""
IMPORTS_IT = "import tensorflow\ndef train_func(): pass"
TRAINS = "def train_func(): print('it trained')"


def test_a_framework_that_the_image_lacks_is_rejected_before_workers_start(tmp_path: Path) -> None:
    (tmp_path / "image").mkdir()
    (tmp_path / "image" / "sitecustomize.py").write_text(HIDES_TENSORFLOW)
    with Pods(tmp_path, make_job(framework="TensorFlow"), source={"user.py": IMPORTS_IT}) as pods:
        pods.start_head(PYTHONPATH=str(tmp_path / "image"))
        assert pods.wait_ended() == FailureClass.CONFIGURATION.exit_code, pods.read_log()
        outcome = pods.read_outcome()
        assert outcome.reason == "FrameworkMissing"
        assert outcome.message == (
            "trainer.framework: TensorFlow needs the Python package tensorflow, which spec.image does not have; "
            "use an image with tensorflow"
        )
        assert "Traceback" not in pods.read_log()


NODE = RayNode(cpus=1, gpus=1, resources={}, object_store_bytes=100_000_000)
WITH_GPU = {
    "framework": "JAX",
    "scaling": ScalingInput(1, use_gpu=True, resources_per_worker={"CPU": 1.0, "GPU": 1.0}),
    "ray_node": RayNodes(replace(NODE, cpus=0, gpus=0), NODE),
}


@pytest.mark.slow  # tests/unit/driver has the errors and their class
@pytest.mark.parametrize(
    ("package", "error", "text", "changes"),
    [
        ("jax", "ImportError", "libnvrtc.so.12: cannot open it", WITH_GPU),
        ("torch", "OSError", "libnccl.so.2: cannot open it", {"framework": "Torch"}),
    ],
)
def test_a_framework_that_breaks_on_the_workers_ends_the_job_with_a_message(
    tmp_path: Path, package: str, error: str, text: str, changes: dict[str, Any]
) -> None:
    """These two are imported on the workers alone."""
    (tmp_path / "image" / package).mkdir(parents=True)
    (tmp_path / "image" / package / "__init__.py").write_text(f"raise {error}({text!r})")
    with Pods(tmp_path, make_single_job(**changes), source={"user.py": TRAINS}) as pods:
        pods.start_head()
        pods.start_worker(0, env={"PYTHONPATH": str(tmp_path / "image")})
        assert pods.wait_ended(timeout=240) == FailureClass.CONFIGURATION.exit_code, pods.read_log()
        outcome = pods.read_outcome()
        assert outcome.reason == "FrameworkMissing"
        assert outcome.message.startswith("spec.image: the workers cannot import the trainer's framework (")
        assert text in outcome.message
        assert "it trained" not in pods.read_log()
