"""`make demo`: trains the digits example on a cluster on this machine, kills a worker, and proves the result.

Exit code 0 only if the worker pod was replaced and training resumed from a checkpoint, the job succeeded, its accuracy
on held-out digits is at least 0.95, and the checkpoint that the status names loads and gives that accuracy again.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import os
import re
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

from railhead.cli.local import TimedConsole, describe_access, uninterrupted
from railhead.cli.main import interrupt_on_termination
from railhead.local import LocalError
from railhead.local.control_plane.binaries import resolve
from railhead.local.install import Kubectl
from railhead.local.local_jobs import JobResult, follow
from railhead.local.session import Session, default_capacity

PROJECT = Path(__file__).resolve().parents[1]
MANIFEST = PROJECT / "manifests" / "examples" / "digits.yaml"
CODE = PROJECT / "manifests" / "examples" / "src" / "digits.py"
BAR = 0.95
EPOCHS = 50  # the example's 10 take two seconds, which is too short to kill a worker meanwhile
VICTIM = "railhead.dev/job-name=digits,railhead.dev/role=worker,railhead.dev/slot=1"
WAIT_SECONDS = 300
RESUMED = re.compile(r"^\(rank 0\) resuming (after epoch \d+) from (\S+)$", re.MULTILINE)


def load_example() -> ModuleType:
    """The example's own module, for its model and its held-out digits."""
    spec = importlib.util.spec_from_file_location("digits", CODE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def measure(uri: str) -> float:
    """Accuracy of the checkpoint on held-out digits. Raises OSError when it does not load."""
    import torch

    example = load_example()
    state = torch.load(Path(uri) / "state.pt", weights_only=True)
    model = example.build_model()
    model.load_state_dict(state["model"])
    return float(example.measure_accuracy(model, example.split_digits()[1]))


def read_manifest() -> str:
    """Returns the example with more epochs."""
    text, count = re.subn(r"epochs: 10\b", f"epochs: {EPOCHS}", MANIFEST.read_text(), count=1)
    assert count == 1
    return text


def train(kubectl: Kubectl, session: Session, console: TimedConsole) -> dict[str, Any] | None:
    """Applies the example, kills a worker and follows the job; returns its status if it succeeded."""
    console.echo(f"sed 's/epochs: 10/epochs: {EPOCHS}/' manifests/examples/digits.yaml | kubectl apply -f -")
    for line in kubectl("apply", "-f", "-", stdin=read_manifest()).splitlines():
        console.echo(f"  {line}")
    result = asyncio.run(follow_and_kill(session, console))
    if not result.is_success:
        for line in result.lines:
            console.echo(line)
        return None
    status: dict[str, Any] = json.loads(kubectl("get", "trainjobs.railhead.dev", "digits", "-o", "json"))["status"]
    return status


async def follow_and_kill(session: Session, console: TimedConsole) -> JobResult:
    """Follows the job to its end, and deletes a worker pod once the status has a checkpoint."""
    killing = asyncio.create_task(kill_worker(session, console))
    try:
        return await follow(str(session.kubeconfig), namespace="default", name="digits", echo=console.echo)
    finally:
        killing.cancel()
        await asyncio.gather(killing, return_exceptions=True)


async def kill_worker(session: Session, console: TimedConsole) -> None:
    waiting = ["wait", "--for=jsonpath={.status.checkpoint.uri}", "rtj/digits", f"--timeout={WAIT_SECONDS}s"]
    killing = ["delete", "pods", "-l", VICTIM, "--wait=false"]
    if await call(session, waiting) == 0:
        console.echo("the job has a checkpoint; now a worker is killed")
        console.echo(f"kubectl delete pods -l {VICTIM}")
        await call(session, killing)


async def call(session: Session, arguments: list[str]) -> int:
    """Runs kubectl without its output, and kills it when the task is cancelled; returns its exit code."""
    process = await asyncio.create_subprocess_exec(
        session.kubectl, "--kubeconfig", session.kubeconfig, *arguments, stdout=asyncio.subprocess.DEVNULL
    )
    try:
        return await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def prove(status: dict[str, Any], log: str, console: TimedConsole) -> bool:
    """Whether the worker was replaced, training resumed, and the checkpoint that the status names has its accuracy."""
    resumed = RESUMED.search(log)
    if not status["round"] or resumed is None:
        console.echo("NOT PROVEN: training ended before the worker was replaced")
        return False
    console.echo(f"attempts: {status['attempt']}; rounds in which worker pods were replaced: {status['round']}")
    console.echo(f"training resumed {resumed[1]}, from the checkpoint {resumed[2]}")
    uri, reported = status["checkpoint"]["uri"], float(status["progress"]["metrics"]["accuracy"])
    measured = measure(uri)
    console.echo(f"accuracy on 360 held-out digits, as reported: {reported:.4f}")
    console.echo(f".status.checkpoint.uri: {uri}")
    console.echo(f"that checkpoint, loaded and measured here:   {measured:.4f}")
    if reported < BAR or abs(measured - reported) > 1e-4:
        console.echo(f"NOT PROVEN: expected at least {BAR}, and the same figure twice")
        return False
    return True


def tell_more(session: Session, *, is_kept: bool) -> None:
    print("\nTo explore further:")
    if is_kept:
        print(describe_access(session))
        print("  kubectl describe rtj digits\n  kubectl logs -l railhead.dev/role=head --tail=50")
        print(f"  .venv/bin/railhead local down --dir {session.folder}")
    else:
        print("  .venv/bin/railhead local run --keep -f manifests/examples/digits.yaml   # keeps the cluster up")
        print("  kubectl explain rtj.spec   # in that cluster, after the exports that it prints")
        print("  .venv/bin/railhead local down")


def run(*, is_kept: bool) -> int:
    console = TimedConsole()
    console.echo("a Kubernetes control plane on this machine, a node whose pods are processes, the operator")
    base = Path(os.environ.get("RAILHEAD_DEMO_DIR") or Path.home() / ".railhead" / "demo")
    base.mkdir(parents=True, exist_ok=True)
    session = Session(Path(tempfile.mkdtemp(dir=base, prefix="run-")))
    binaries = resolve(console.echo)
    status = None
    try:
        session.up(default_capacity(), binaries=binaries, echo=console.echo, is_ours_only=not is_kept)
        kubectl = Kubectl(session.kubectl, session.kubeconfig)
        status = train(kubectl, session, console)
        is_proven = status is not None and prove(status, kubectl("logs", status["head"]["pod"]), console)
    finally:
        if not (is_kept and status):
            with uninterrupted():
                session.down()
    if is_proven:
        console.echo(
            "proven: the job trained on after losing a worker, and its checkpoint has the accuracy in the status"
        )
        tell_more(session, is_kept=is_kept)
    return 0 if is_proven else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", action="store_true", help="keep the cluster up")
    options = parser.parse_args()
    interrupt_on_termination()
    try:
        return run(is_kept=options.keep)
    except KeyboardInterrupt:
        print("interrupted; everything was stopped", file=sys.stderr)
        return 130
    except LocalError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
