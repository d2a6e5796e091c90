"""What is installed into a local cluster: the same files as elsewhere, without those that run as a process."""

from __future__ import annotations

from pathlib import Path

import pytest

from railhead.local import LocalError
from railhead.local.install import (
    Kubectl,
    KubectlFailed,
    build_node_role,
    find_manifests,
    install,
    load_manifests,
    select_installed,
    service_account_name,
)


def test_the_package_includes_the_manifests() -> None:
    kinds = {document["kind"] for document in load_manifests()}
    assert {"CustomResourceDefinition", "ClusterRole", "Deployment"} <= kinds


def test_reports_an_incomplete_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("railhead.__file__", str(tmp_path / "railhead" / "__init__.py"))
    with pytest.raises(LocalError, match=r"data/install.yaml is missing; reinstall Railhead"):
        find_manifests()


def test_installs_the_operators_role_but_not_its_deployment() -> None:
    documents = load_manifests()
    kinds = [d["kind"] for d in select_installed(documents)]
    assert kinds[0] == "Namespace"
    assert {"CustomResourceDefinition", "ServiceAccount", "ClusterRole", "ClusterRoleBinding"} <= set(kinds)
    assert not {"Deployment", "Service"} & set(kinds)


def test_uses_the_service_account_of_the_manifests() -> None:
    documents = load_manifests()
    bound = next(d for d in documents if d["kind"] == "ClusterRoleBinding")["subjects"][0]["name"]
    assert service_account_name(documents) == bound


def test_the_nodes_role_covers_only_volumes() -> None:
    role, binding = build_node_role("local")
    assert {r for rule in role["rules"] for r in rule["resources"]} == {
        "persistentvolumeclaims",
        "persistentvolumes",
        "storageclasses",
    }
    assert binding["subjects"][0]["name"] == "system:node:local"


def test_quotes_kubectls_error(tmp_path: Path) -> None:
    program = tmp_path / "kubectl"
    program.write_text("#!/bin/sh\necho 'the field is bad' >&2\nexit 1\n")
    program.chmod(0o755)
    with pytest.raises(KubectlFailed, match="the field is bad"):
        Kubectl(program, tmp_path / "kubeconfig")("apply", "-f", "-")


def test_a_crd_without_conditions_yet_is_waited_for_in_another_way_first(tmp_path: Path) -> None:
    """`kubectl wait --for=condition` fails on conditions that are null, as those of a CRD in its first moment."""
    program, names = tmp_path / "kubectl", tmp_path / "names"
    program.write_text(
        "#!/bin/sh\n"
        f'case "$*" in *acceptedNames*) touch {names};; *condition=*) test -e {names};; *) cat > /dev/null;; esac\n'
    )
    program.chmod(0o755)
    install(Kubectl(program, tmp_path / "kubeconfig"))
