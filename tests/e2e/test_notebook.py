"""The notebook of the docs, against a cluster: `Client` submits a function, which runs with Ray to its end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.e2e.cluster import Cluster
from tests.unit.client.notebooks import Notebook, read_cells


@pytest.mark.slow
def test_the_notebook_trains_and_brings_back_metrics_and_the_best_checkpoint(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not cluster.is_local:
        pytest.skip("the notebook's image exists in local mode only, which pulls none")
    config = yaml.safe_load(cluster.kubectl("config", "view", "--raw"))
    config["contexts"][0]["context"]["namespace"] = cluster.namespace
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(config))
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    monkeypatch.chdir(tmp_path)
    notebook = Notebook()
    try:
        for cell in read_cells():
            notebook.run(cell)
    finally:
        notebook.forget()
    names = notebook.names
    assert names["status"].phase == "Succeeded"
    assert names["loss"].values == (1.0, 0.5, pytest.approx(1 / 3))
    assert json.loads((tmp_path / "best" / "state.json").read_text()) == {"epoch": 2}
    assert names["job"].checkpoint.info.is_best
    assert [each.info.files for each in names["job"].checkpoints()] == [1, 1, 1]
    assert len(names["job"].why()) == 1
    names["job"].delete()
