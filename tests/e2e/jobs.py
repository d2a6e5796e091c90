"""TrainJobs of the end-to-end tests: small training functions with externally visible effects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from tests.e2e.cluster import Cluster, Object

EXAMPLES = Path(__file__).resolve().parents[2] / "manifests" / "examples"
NO_RESTARTS = {"application": 0, "withoutProgress": 0, "disruptions": 0}
# Counts epochs and commits each; records the first epoch of each start of the group.
COUNTING = """
import json, os, tempfile, time
import ray.train, ray.train.collective


def train_func(config):
    context = ray.train.get_context()
    rank = context.get_world_rank()
    first = 0
    checkpoint = ray.train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder:
            first = json.load(open(os.path.join(folder, "epoch.json"))) + 1
    if rank == 0:
        os.makedirs(os.environ["NOTES"], exist_ok=True)
        with open(os.path.join(os.environ["NOTES"], "starts"), "a") as notes:
            notes.write(f"{first}\\n")
    for epoch in range(first, config["epochs"]):
        print(f"line of rank {rank} epoch {epoch}", flush=True)
        time.sleep(config.get("seconds", 0.2))
        if epoch == config.get("raise_at") and not first:
            ray.train.collective.barrier()  # each has made its last report
            raise ValueError("the lorry is empty")
        with tempfile.TemporaryDirectory() as folder:
            json.dump(epoch, open(os.path.join(folder, "epoch.json"), "w"))
            mine = ray.train.Checkpoint.from_directory(folder) if rank == 0 else None
            ray.train.report({"epoch": epoch, "loss": 1.0 / (epoch + 1)}, checkpoint=mine)
"""


def make_job(name: str, image: str, *, code: str = COUNTING, function: str = "steps:train_func", **spec: Any) -> Object:
    """A job of two workers; keyword arguments replace top-level spec fields."""
    fields: Object = {
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "trainer": {"framework": "Python", "trainFunc": function},
        "source": {"inline": {"steps.py": code}},
        "scaling": {"numWorkers": 2, "resourcesPerWorker": {"cpu": "200m", "memory": "512Mi"}},
        "run": {"storagePath": "/runs", "storageVolume": {"persistentVolumeClaim": {"claimName": "runs"}}},
        "head": {"resources": {"cpu": "200m", "memory": "3Gi"}},
        "env": [{"name": "NOTES", "value": f"/runs/notes-{name}"}],
        **spec,
    }
    return {
        "apiVersion": "railhead.dev/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": name},
        "spec": {key: value for key, value in fields.items() if value is not None},
    }


def leave_room(spec: Object) -> None:
    """Lowers an example's requests to those of `make_job`: two jobs fit on a node of two processors."""
    spec["scaling"]["resourcesPerWorker"]["cpu"] = spec["head"]["resources"]["cpu"] = "200m"


def load_digits(cluster: Cluster) -> list[Object]:
    """The example's documents without its claim, with the cluster's image."""
    documents = [d for d in yaml.safe_load_all((EXAMPLES / "digits.yaml").read_text()) if d]
    for document in documents:
        if document["kind"] == "TrainJob":
            document["spec"] |= {"image": cluster.image, "imagePullPolicy": "IfNotPresent"}
            leave_room(document["spec"])
    return [d for d in documents if d["kind"] != "PersistentVolumeClaim"]


def with_config(job: Object, **config: Any) -> Object:
    """The job with this train_loop_config."""
    trainer = {**job["spec"]["trainer"], "trainLoopConfig": config}
    return {**job, "spec": {**job["spec"], "trainer": trainer}}


def read_starts(cluster: Cluster, name: str, *, claim: str = "runs") -> list[int]:
    """The first epoch of each start of the worker group."""
    return [int(line) for line in cluster.read_file(claim, f"notes-{name}/starts").split()]
