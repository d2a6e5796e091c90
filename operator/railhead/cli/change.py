"""`railhead suspend`, `resume`, `retry`, `delete` and `wait`: what changes jobs, and what waits for them."""

from __future__ import annotations

import argparse
import sys

from railhead.cli.cluster_command import confirm
from railhead.cli.output import Console
from railhead.client.cluster.connection import Cluster
from railhead.client.cluster.waiting import wait_for
from railhead.client.exit_codes import ClientError, ExitCode
from railhead.client.submit.sending import keep_code
from railhead.client.submit.spec_changes import build_retry, parse_changes
from railhead.client.submit.suspension import resume, suspend
from railhead.json_object import Object


async def do_wait(options: argparse.Namespace, cluster: Cluster, console: Console) -> int:
    """Returns 0 if the job got to the goal, 1 if it never will."""
    ending = await wait_for(cluster, options.name, options.goal, timeout=options.timeout, echo=_say)
    console.line(ending.message)
    if ending.is_reached:
        return 0
    return 1


def _say(text: str) -> None:
    Console(sys.stderr).line(text)


async def do_suspend(options: argparse.Namespace, cluster: Cluster, console: Console) -> int:
    """Sets spec.suspend."""
    job = await suspend(cluster, options.name)
    if options.wait:
        return await do_wait(options, cluster, console)
    phase = (job.get("status") or {}).get("phase")
    console.line(f"{options.name}: {'is suspended' if phase == 'Suspended' else 'is being suspended'}")
    return 0


async def do_resume(options: argparse.Namespace, cluster: Cluster, console: Console) -> int:
    """Changes the fields and clears spec.suspend in one write, once a suspension that has begun is complete."""
    name = options.name
    changes = parse_changes(options.changes)
    if await resume(cluster, name, changes, timeout=options.timeout, echo=_say):
        console.line(f"{name}: is resumed; `railhead status {name}` shows how it starts")
    elif changes:
        console.line(f"{name}: changed; it was not suspended")
    else:
        console.line(f"{name}: was not suspended; `railhead why {name}` says what it waits for")
    return 0


async def do_retry(options: argparse.Namespace, cluster: Cluster, console: Console) -> int:
    """Creates the next try of a finished job."""
    changes = parse_changes(options.changes)
    new = build_retry(await cluster.get_job(options.name), changes, options.new_name)
    source = new["spec"].get("resumeFrom")
    created = await cluster.create_job(new)
    await keep_code(cluster, created)
    name = str(created["metadata"]["name"])
    where = ""
    if isinstance(source, dict):
        where = ", ".join(f"{key} {value}" for key, value in source.items())
    start = "from scratch, because there is no checkpoint"
    if where:
        start = f"from {where}"
    console.line(f"{name}: created; it starts {start}")
    console.line(f"  railhead status {name}")
    console.line(f"  railhead logs {name} -f")
    return 0


async def do_delete(options: argparse.Namespace, cluster: Cluster, console: Console) -> int:
    """Deletes the jobs that are named, or that the selector finds."""
    if bool(options.names) == bool(options.selector or options.all_namespaces):
        raise ClientError("name the jobs, or select them with -l (and -A)", ExitCode.USAGE)

    def identify(job: Object) -> tuple[str, str, str]:
        metadata = job["metadata"]
        return str(metadata["namespace"]), str(metadata["name"]), str(metadata["uid"])

    if options.names:
        found = [identify(await cluster.get_job(name)) for name in dict.fromkeys(options.names)]
    else:
        found = await cluster.list_jobs(options.selector, identify)
    if len(found) > 1 and not options.yes:
        for namespace, name, _ in found:
            _say(f"  {namespace}/{name}")
        if not confirm(f"Delete these {len(found)} TrainJobs?"):
            raise ClientError("nothing was deleted; use --yes to delete without a question", ExitCode.USAGE)
    for namespace, name, uid in found:
        await cluster.delete_job(name, uid, namespace)
        console.line(f"{name}: deleted")
    if not found:
        console.line("No TrainJobs found.")
    return 0
