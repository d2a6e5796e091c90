"""`railhead suspend`, `resume`, `retry`, `delete` and `wait`: what changes jobs, and what waits for them."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from railhead.cli.cluster_command import Subparsers, add_command, confirm, duration, job_name
from railhead.cli.output import Console
from railhead.client.goals import GOALS

if TYPE_CHECKING:
    from railhead.api.base import Object
    from railhead.client.cluster import Cluster

SUSPEND = "Suspend a TrainJob: it commits a last checkpoint and releases its pods."
RESUME = "Resume a suspended TrainJob from its last checkpoint, with changed fields if wanted."
RETRY = "Create a TrainJob that continues a finished one from its checkpoint; the finished one stays."
DELETE = "Delete TrainJobs. Their checkpoints stay in the storage. Asks before it deletes more than one."
WAIT = "Wait until a TrainJob is in a state. Ctrl-C ends the command, not the job."
SET = "change a field: image=IMAGE, scaling.resourcesPerWorker.memory=64Gi, or null to remove it (repeatable)"


def add_commands(commands: Subparsers[argparse.ArgumentParser]) -> None:
    wait = add_command(commands, "wait", WAIT, wait_for_job)
    wait.add_argument("--for", dest="goal", choices=GOALS, default="finished", help="default: %(default)s")
    _add_timeout(wait)
    suspend = add_command(commands, "suspend", SUSPEND, suspend_job)
    suspend.add_argument("--wait", action="store_true", help="until it has no pods")
    suspend.set_defaults(goal="suspended")
    _add_timeout(suspend)
    resume = add_command(commands, "resume", RESUME, resume_job)
    add_set(resume)
    _add_timeout(resume)
    retry = add_command(commands, "retry", RETRY, retry_job)
    add_set(retry)
    retry.add_argument("--name", dest="new_name", default="", metavar="NAME", help="default: NAME-r2, NAME-r3, ...")
    delete = add_command(commands, "delete", DELETE, delete_jobs, has_name=False, is_for_all=True)
    delete.add_argument("names", nargs="*", type=job_name, metavar="NAME", help="the TrainJobs")
    delete.add_argument("-l", "--selector", default="", help="the jobs with these labels")
    delete.add_argument("-y", "--yes", action="store_true", help="do not ask")


def _add_timeout(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--timeout", type=duration, metavar="TIME", help="such as 90s, 20m or 2h (default: none)")


def add_set(parser: argparse.ArgumentParser) -> None:
    """Adds the option that changes fields of the spec."""
    parser.add_argument("--set", dest="changes", action="append", default=[], metavar="PATH=VALUE", help=SET)


async def wait_for_job(options: argparse.Namespace, cluster: Cluster, console: Console) -> int:
    """Returns 0 if the job got to the goal, 1 if it never will."""
    from railhead.client.waiting import wait_for

    ending = await wait_for(cluster, options.name, options.goal, timeout=options.timeout, echo=_say)
    console.line(ending.message)
    return 0 if ending.is_reached else 1


def _say(text: str) -> None:
    Console(sys.stderr).line(text)


async def suspend_job(options: argparse.Namespace, cluster: Cluster, console: Console) -> int:
    """Sets spec.suspend."""
    from railhead.client.suspension import suspend

    job = await suspend(cluster, options.name)
    if options.wait:
        return await wait_for_job(options, cluster, console)
    phase = (job.get("status") or {}).get("phase")
    console.line(f"{options.name}: {'is suspended' if phase == 'Suspended' else 'is being suspended'}")
    return 0


async def resume_job(options: argparse.Namespace, cluster: Cluster, console: Console) -> int:
    """Changes the fields and clears spec.suspend in one write, once a suspension that has begun is complete."""
    from railhead.client.changes import parse_changes
    from railhead.client.suspension import resume

    name, changes = options.name, parse_changes(options.changes)
    if await resume(cluster, name, changes, timeout=options.timeout, echo=_say):
        console.line(f"{name}: is resumed; `railhead status {name}` shows how it starts")
    elif changes:
        console.line(f"{name}: changed; it was not suspended")
    else:
        console.line(f"{name}: was not suspended; `railhead why {name}` says what it waits for")
    return 0


async def retry_job(options: argparse.Namespace, cluster: Cluster, console: Console) -> int:
    """Creates the next try of a finished job."""
    from railhead.client.changes import build_retry, parse_changes
    from railhead.client.sending import keep_code

    changes = parse_changes(options.changes)
    new = build_retry(await cluster.get_job(options.name), changes, options.new_name)
    source = new["spec"].get("resumeFrom")
    created = await cluster.create_job(new)
    await keep_code(cluster, created)
    name = str(created["metadata"]["name"])
    where = ", ".join(f"{key} {value}" for key, value in source.items()) if isinstance(source, dict) else ""
    start = f"from {where}" if where else "from scratch, because there is no checkpoint"
    console.line(f"{name}: created; it starts {start}")
    console.line(f"  railhead status {name}")
    console.line(f"  railhead logs {name} -f")
    return 0


async def delete_jobs(options: argparse.Namespace, cluster: Cluster, console: Console) -> int:
    """Deletes the jobs that are named, or that the selector finds."""
    from railhead.client.errors import ClientError, ExitCode

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
