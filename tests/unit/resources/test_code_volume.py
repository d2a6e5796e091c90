"""The init container that fetches code: no more rights than the main one, and the only one with credentials."""

from __future__ import annotations

import json
from typing import Any

import pytest

from railhead.contract.job_input import GitInput, JobInput
from railhead.resources.mounts import build_input
from tests.unit.builders import SETTINGS, make_spec
from tests.unit.resources.test_pod_builder import JOB, ROLES, build, env, mounts, ray, volumes

GIT = {"repository": "https://git.example/a.git", "revision": "0a" * 20, "path": "src", "secretName": "keys"}
Object = dict[str, Any]
both_roles = pytest.mark.parametrize("role", ROLES)


def build_git(role: str, *, git: Object | None = None, **changes: Any) -> Object:
    return build(role, source={"git": {**GIT, **(git or {})}}, **changes)


def fetcher(pod: Object) -> Object:
    [container] = [c for c in pod["spec"]["initContainers"] if c["name"] == "railhead-source"]
    return dict(container)


@both_roles
def test_only_the_init_container_can_write_the_code(role: str) -> None:
    pod = build_git(role)
    assert volumes(pod)["railhead-source"] == {"emptyDir": {}}
    [written] = [m for m in fetcher(pod)["volumeMounts"] if m["name"] == "railhead-source"]
    [read] = [m for m in ray(pod)["volumeMounts"] if m["name"] == "railhead-source"]
    assert (written.get("readOnly", False), read["readOnly"]) == (False, True)
    assert env(pod)["RAILHEAD_SOURCE"] == f"{read['mountPath']}/repository/src"
    assert env(build(role, source={"git": {**GIT, "path": "a/b"}}))["RAILHEAD_SOURCE"].endswith("/repository/a/b")


@both_roles
def test_only_the_init_container_sees_the_credentials_and_their_copies(role: str) -> None:
    pod = build_git(role)
    mounted = {m["name"] for m in fetcher(pod)["volumeMounts"]}
    assert volumes(pod)["railhead-git"]["secret"]["secretName"] == "keys"
    assert {"railhead-git", "railhead-fetch"} <= mounted
    assert not {"railhead-git", "railhead-fetch"} & set(mounts(pod).values())
    assert "keys" not in json.dumps(ray(pod))
    assert "railhead-git" not in volumes(build(role, source={"git": {k: GIT[k] for k in ("repository", "revision")}}))


@both_roles
def test_it_sees_no_token_and_none_of_the_jobs_secrets(role: str) -> None:
    secret = {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s3", "key": "k"}}}
    proxy = {"name": "HTTPS_PROXY", "value": "http://proxy:3128"}
    pod = build_git(role, env=[secret, proxy], envFrom=[{"secretRef": {"name": "s3"}}])
    container = fetcher(pod)
    assert proxy in container["env"] and secret not in container["env"]
    assert "envFrom" not in container
    allowed = {"railhead-bundle", "railhead-input", "railhead-source", "railhead-fetch", "railhead-git"}
    assert {m["name"] for m in container["volumeMounts"]} == allowed


@both_roles
def test_it_has_the_main_containers_security_context_even_if_a_template_changes_it(role: str) -> None:
    pod = build_git(role)
    assert fetcher(pod)["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    over = {"name": "ray", "securityContext": {"runAsUser": 7, "readOnlyRootFilesystem": True}}
    pod = build_git(role, podTemplate={"spec": {"containers": [over]}})
    assert fetcher(pod)["securityContext"] == ray(pod)["securityContext"]
    assert fetcher(pod)["securityContext"]["runAsUser"] == 7


def test_it_requests_the_main_containers_resources_except_devices() -> None:
    pod = build_git("worker", scaling={"numWorkers": 2, "useGPU": True})
    main, own = ray(pod)["resources"], fetcher(pod)["resources"]
    assert main["limits"]["nvidia.com/gpu"] == "1"
    for kind in ("requests", "limits"):
        assert own[kind] == {name: amount for name, amount in main[kind].items() if name != "nvidia.com/gpu"}
    assert {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"} in fetcher(pod)["env"]


def test_its_image_is_the_jobs_or_its_own() -> None:
    assert fetcher(build_git("head", imagePullPolicy="Always"))["image"] == "example/train:1"
    assert fetcher(build_git("head", imagePullPolicy="Always"))["imagePullPolicy"] == "Always"
    container = fetcher(build_git("head", git={"image": "git:1"}))
    assert (container["image"], container["command"][-1]) == ("git:1", "fetch")


def test_it_runs_after_the_templates_init_containers_and_owns_its_name() -> None:
    own = [{"name": "railhead-source", "image": "other"}, {"name": "net", "image": "net:1", "restartPolicy": "Always"}]
    pod = build_git("worker", podTemplate={"spec": {"initContainers": own}})
    assert [c["name"] for c in pod["spec"]["initContainers"]] == ["net", "railhead-source"]
    assert fetcher(pod)["image"] == "example/train:1"
    assert "initContainers" not in build("worker")["spec"]


def test_the_input_holds_the_commit_to_fetch() -> None:
    made = build_input(JOB, make_spec(source={"git": GIT}), settings=SETTINGS)
    assert JobInput.from_json(made["data"]["job.json"]).git == GitInput(
        GIT["repository"], GIT["revision"], GIT.get("path", ""), GIT.get("secretName", "")
    )
