"""How GitOps tools rate a TrainJob: Argo CD's script in a real Lua, Flux's expressions in a real CEL."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import cel
import pytest
import yaml
from lupa import lua51

from railhead.api import conditions

PROJECT = Path(__file__).resolve().parents[3]
GITOPS = PROJECT / "manifests" / "gitops"
Object = dict[str, Any]
# tests/operator/test_states.py saves them from real runs and checks that they are up to date.
SAVED: list[Object] = yaml.load(Path(__file__).with_name("states.yaml").read_text(), yaml.CSafeLoader)


def build_queue_lost() -> Object:
    """Returns the state of a job whose queue is gone while it runs: the cluster of the saved states has no Kueue."""
    [state] = [copy.deepcopy(each) for each in SAVED if each["name"] == "running beside a foreign pod"]
    [condition] = [each for each in state["status"]["conditions"] if each["type"] == conditions.FOREIGN_PODS]
    condition |= {"type": conditions.QUEUE_UNREACHABLE, "reason": "QueueLost"}
    return {**state, "name": "running while its queue is gone"}


# The CRD's default prevents a state without a status.
STATES: list[Object] = [*SAVED, build_queue_lost(), {"name": "without a status", "generation": 1}]
# How each tool must rate them: kstatus (used by Flux, and by Helm 4 with --wait, by default), Flux with our
# expressions, Argo CD with our script.
EXPECTED = {
    "not seen by any operator": ("InProgress", "InProgress", "Progressing"),
    "without a status": ("Current", "error", "Progressing"),
    "starting": ("InProgress", "InProgress", "Progressing"),
    "running": ("Current", "InProgress", "Progressing"),
    "running, with a change that was not seen": ("InProgress", "InProgress", "Progressing"),
    "running, though the run cannot resume": ("Current", "InProgress", "Progressing"),
    "running from an older checkpoint": ("Current", "InProgress", "Progressing"),
    "running with a Ray that cannot announce the end": ("Current", "InProgress", "Progressing"),
    "running with a Ray that is newer than tested": ("Current", "InProgress", "Progressing"),
    "running while the storage is full": ("Current", "InProgress", "Progressing"),
    "running, though it may hang": ("Current", "InProgress", "Progressing"),
    "running while a metric rule fires": ("Current", "InProgress", "Progressing"),
    "restarting after a loss": ("InProgress", "InProgress", "Progressing"),
    "suspending": ("InProgress", "InProgress", "Progressing"),
    "suspended": ("Current", "Current", "Suspended"),
    "succeeded": ("Current", "Current", "Healthy"),
    "failed": ("Failed", "Failed", "Degraded"),
    "refused by the operator": ("Failed", "Failed", "Degraded"),
    "running while its queue is gone": ("Current", "InProgress", "Progressing"),
    "running beside a foreign pod": ("Current", "InProgress", "Progressing"),
    "running with a CPU limit from a LimitRange": ("Current", "InProgress", "Progressing"),
    "succeeded, with a pod that a policy protects": ("Current", "Current", "Healthy"),
    "being deleted": ("Terminating", "InProgress", "Progressing"),
}
per_state = pytest.mark.parametrize("state", STATES, ids=lambda state: state["name"])


def build_job(state: Object) -> Object:
    metadata = {"name": "digits", "generation": state["generation"]}
    if "deletionTimestamp" in state:
        metadata["deletionTimestamp"] = state["deletionTimestamp"]
    job: Object = {"apiVersion": "railhead.dev/v1alpha1", "kind": "TrainJob", "metadata": metadata, "spec": {}}
    return {**job, "status": state["status"]} if "status" in state else job


def true_conditions(job: Object) -> set[str]:
    return {c["type"] for c in job.get("status", {}).get("conditions", []) if c["status"] == "True"}


def read_kstatus(job: Object) -> str:
    """The rules of kstatus for an unknown kind; none of our conditions is named Ready."""
    status = job.get("status", {})
    if "deletionTimestamp" in job["metadata"]:
        return "Terminating"
    if "observedGeneration" in status and status["observedGeneration"] != job["metadata"]["generation"]:
        return "InProgress"
    found = [c["type"] for c in status.get("conditions", []) if c["status"] == "True"]
    first = next((name for name in found if name in ("Reconciling", "Stalled")), "")
    return {"Reconciling": "InProgress", "Stalled": "Failed", "": "Current"}[first]


def read_flux(job: Object) -> str:
    """Flux's own order of checks, with the expressions of sync.yaml."""
    documents = yaml.safe_load_all((GITOPS / "flux" / "sync.yaml").read_text())
    [checks] = [d["spec"]["healthCheckExprs"] for d in documents if "healthCheckExprs" in d["spec"]]
    [check] = [c for c in checks if (c["apiVersion"], c["kind"]) == (job["apiVersion"], job["kind"])]
    status = job.get("status", {})
    if "observedGeneration" in status and status["observedGeneration"] != job["metadata"]["generation"]:
        return "InProgress"
    for key, outcome in (("inProgress", "InProgress"), ("failed", "Failed"), ("current", "Current")):
        if key in check and evaluate(check[key], job):
            return outcome
    return "InProgress"


def evaluate(expression: str, job: Object) -> bool:
    result = cel.evaluate(expression, job)
    assert isinstance(result, bool)
    return result


def read_argocd(job: Object) -> tuple[str, str]:
    """Status and message, in the Lua version of Argo CD's interpreter."""
    config = yaml.safe_load((GITOPS / "argocd" / "argocd-cm.yaml").read_text())
    script = config["data"]["resource.customizations.health.railhead.dev_TrainJob"]
    lua = lua51.LuaRuntime(register_eval=False)
    lua.globals()["obj"] = lua.table_from(job, recursive=True)
    health = lua.execute(script)
    return str(health["status"]), str(health["message"])


@per_state
def test_kstatus(state: Object) -> None:
    assert read_kstatus(build_job(state)) == EXPECTED[state["name"]][0]


@per_state
def test_flux(state: Object) -> None:
    if EXPECTED[state["name"]][1] == "error":  # Flux retries until the field exists
        with pytest.raises(Exception, match="status"):
            read_flux(build_job(state))
    else:
        assert read_flux(build_job(state)) == EXPECTED[state["name"]][1]


@per_state
def test_argocd(state: Object) -> None:
    status, message = read_argocd(build_job(state))
    assert status == EXPECTED[state["name"]][2]
    assert message


def test_argocd_reports_why_a_job_failed() -> None:
    [failed] = [s for s in STATES if s["name"] == "failed"]
    status, message = read_argocd(build_job(failed))
    assert status == "Degraded" and "ValueError: no rails" in message


def test_every_state_has_an_expected_health() -> None:
    assert {state["name"] for state in STATES} == set(EXPECTED)


def test_the_states_cover_exactly_our_conditions() -> None:
    """A new condition needs a decision here."""
    named = {c["type"] for s in STATES for c in s.get("status", {}).get("conditions", [])}
    assert named == set(conditions.ORDER)


def test_a_failed_job_is_never_rated_as_healthy() -> None:
    """By none of the three, whatever its other conditions; kstatus uses the first in the list."""
    for state in STATES:
        job = build_job(state)
        if true_conditions(job) & {"Failed", "Stalled"}:
            assert (read_kstatus(job), read_flux(job), read_argocd(job)[0]) == ("Failed", "Failed", "Degraded")
