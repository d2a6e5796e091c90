"""Code from a git server with a password, or from an image: it is trained, or rejected with a clear message."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cluster import Cluster, Object, wait_until
from tests.e2e.jobs import COUNTING, make_job, read_starts, with_config
from tests.git_server import GitServer, make_repository, run_git

PASSWORD = "of the test"


@pytest.fixture(scope="module")
def server(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GitServer]:
    if not cluster.is_local:
        pytest.skip("the test's git server listens on this machine's loopback, which pods of a real node do not reach")
    folder = tmp_path_factory.mktemp("git")
    good = {"src/lessons/__init__.py": "", "src/lessons/steps.py": f"from helper import EPOCHS\n{COUNTING}"}
    make_repository(folder / "root" / "code", {**good, "src/helper.py": "EPOCHS = 2\n"}, {"src/helper.py": "broken("})
    server = GitServer(folder / "root", folder / "tls")
    server.password = PASSWORD
    values = {"username": "robot", "password": PASSWORD, "ca.crt": server.ca.read_text()}
    data = {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "git"}, "data": data}
    cluster.apply({**secret, "type": "kubernetes.io/basic-auth"})
    yield server
    server.stop()


def make_git_job(name: str, cluster: Cluster, server: GitServer, *, revision: str) -> Object:
    git = {"repository": server.url("code"), "revision": revision, "path": "src", "secretName": "git"}
    scaling = {"numWorkers": 1, "resourcesPerWorker": {"cpu": "200m", "memory": "512Mi"}}
    return make_job(name, cluster.image, function="lessons.steps:train_func", source={"git": git}, scaling=scaling)


def find_commit(root: Path, *, back: int) -> str:
    return run_git(root / "code", "rev-parse", f"HEAD~{back}")


@pytest.mark.slow  # the next test fetches too, and so does tests/unit/driver/pod/test_fetch_source.py, with a real git
def test_a_job_trains_with_an_older_commit(cluster: Cluster, server: GitServer) -> None:
    job = make_git_job("from-git", cluster, server, revision=find_commit(server.root, back=1))
    cluster.apply(with_config(job, epochs=2))
    status = cluster.wait_end("from-git")
    assert status["phase"] == "Succeeded", cluster.tell("from-git")
    assert status["progress"]["metrics"]["epoch"] == "1"
    assert read_starts(cluster, "from-git") == [0]
    assert server.users == {"robot"}
    head = cluster.head_pod("from-git")
    log = cluster("logs", head, "-c", "railhead-source") + cluster.log(head)
    assert "the commit is checked out" in log
    assert PASSWORD not in log
    cluster.delete_job("from-git")


@pytest.mark.slow  # tests/unit/driver/pod/test_fetch_source.py has the init container's message, with a real git
def test_a_missing_commit_fails_the_job_at_once_with_a_clear_message(cluster: Cluster, server: GitServer) -> None:
    cluster.apply(make_git_job("no-commit", cluster, server, revision="0" * 40))
    status = cluster.wait_end("no-commit")
    failure = status["failure"]
    assert (failure["class"], failure["reason"], failure["container"]) == (
        "Configuration",
        "CommitNotFound",
        "railhead-source",
    )
    assert failure["message"].startswith(f"spec.source.git.revision: {server.url('code')} has no commit {'0' * 40}")
    [stalled] = [c for c in status["conditions"] if c["type"] == "Stalled"]
    assert failure["message"] in stalled["message"]
    assert status["attempt"] == 1
    cluster.delete_job("no-commit")


@pytest.mark.slow  # test_volumes.py has the message, tests/operator/test_refusals.py the condition
def test_code_from_an_image_is_reported_as_impossible_in_local_mode(cluster: Cluster) -> None:
    if not cluster.is_local:
        pytest.skip("a real node may be able to mount images")
    cluster.apply(make_job("from-image", cluster.image, source={"image": {"reference": "code:1", "path": "src"}}))

    def find_message() -> str:
        conditions = {c["type"]: c for c in cluster.status("from-image").get("conditions") or []}
        return str(conditions.get("Reconciling", {}).get("message", ""))

    message = "volume railhead-source: this node pulls no images, so it cannot mount one"
    wait_until("the condition", lambda: message in find_message(), tell=lambda: cluster.tell("from-image"))
    assert cluster.status("from-image")["phase"] == "Pending"
    cluster.delete_job("from-image")
