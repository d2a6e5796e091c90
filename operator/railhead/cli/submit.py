"""`railhead submit`: checks a job, says what it will take, creates it and follows it."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from railhead.cli.cluster_command import confirm
from railhead.cli.output import Console, remark
from railhead.cli.parser import IMAGE_VARIABLE
from railhead.client.cluster.connection import Cluster
from railhead.client.cluster.waiting import wait_for
from railhead.client.exit_codes import ClientError, ExitCode
from railhead.client.run.follow_logs import follow_logs
from railhead.client.run.log_reader import Printer, Wanted
from railhead.client.submit.code_files import name_module, read_code
from railhead.client.submit.code_map import CodeMap, compare_files, is_held, make_code_map, read_demanded
from railhead.client.submit.quotas import describe_quota, sum_pods
from railhead.client.submit.rendering import list_other_objects, read_jobs, render_job
from railhead.client.submit.sending import check_code, create_with_code, read_code_map, send_code
from railhead.client.submit.spec_changes import parse_changes, parse_config
from railhead.client.submit.submission import (
    attach_code,
    build_job,
    change_job,
    check_existing,
    check_functions,
    describe_plan,
    list_claims,
    mark,
    split_target,
)
from railhead.json_object import Object, part, text

YAML = (".yaml", ".yml")


@dataclass(frozen=True)
class Submission:
    """What is submitted.

    Attributes:
        job: the TrainJob, with the digest by which the next `submit` recognises it.
        code: None = it has no folder.
    """

    job: Object
    code: CodeMap | None = None

    @property
    def name(self) -> str:
        return str(self.job["metadata"]["name"])


async def do_submit(options: argparse.Namespace, cluster: Cluster, console: Console) -> int:
    """Creates the job unless it exists already; with --follow returns 0 if it succeeds."""
    wanted = read_submission(options)
    name = wanted.name
    namespace = wanted.job["metadata"].get("namespace")
    if namespace and not options.namespace:
        cluster = replace(cluster, namespace=namespace)
    existing = await cluster.find_job(name)
    if existing is not None:
        console.line(await _continue(options, cluster, wanted, existing))
    else:
        await _show_plan(cluster, wanted, console)
        _show_left_out(options.target, console)
        if not options.dry_run:
            if sys.stdin.isatty() and not options.yes and not confirm("Create it?"):
                return ExitCode.USAGE
            if wanted.code is None:
                await cluster.create_job(wanted.job)
            else:
                await create_with_code(cluster, wanted.job, wanted.code)
            console.line(f"{name}: created")
    if options.dry_run:
        return 0
    for command in (f"status {name}", f"logs {name} -f", f"why {name}"):
        console.line(f"  railhead {command}")
    if options.follow:
        return await _follow(cluster, name, console)
    return 0


async def _continue(options: argparse.Namespace, cluster: Cluster, wanted: Submission, existing: Object) -> str:
    """Returns a remark about the job that exists, after its code was sent if that had been interrupted.

    Raises:
        ClientError: it is another job, or has finished.
    """
    differences: list[str] = []
    source = part(part(existing, "spec"), "source")
    stored = text(part(source, "configMap"), "name")
    if wanted.code is not None and stored and stored != wanted.code.name:
        found = await read_code_map(cluster, stored)
        differences = compare_files(wanted.code, source, found) if found else []
    remark = check_existing(wanted.job, existing, differences)
    if wanted.code is None or not is_held(existing):
        return remark
    if options.dry_run:
        return f"{wanted.name} exists without its code; `railhead submit` without --dry-run sends it"
    await send_code(cluster, wanted.job, existing, wanted.code)
    return f"{wanted.name}: its code was missing and is sent now"


async def _show_plan(cluster: Cluster, wanted: Submission, console: Console) -> None:
    """Lets the API server check job and code, and prints what they take. Raises ClientError."""
    checked = await cluster.create_job(wanted.job, is_dry_run=True)
    if wanted.code is not None:
        await check_code(cluster, wanted.name, wanted.code)
        for line in wanted.code.describe():
            console.line(line)
    for label, value in describe_plan(checked, cluster.namespace, wanted.code):
        console.line(f"{label:<12}{value}")
    pods = [each for each in render_job(checked) if each["kind"] == "Pod"]
    for claim in list_claims(pods):
        console.line(f"{'Claim':<12}{await _describe_claim(cluster, claim)}")
    for row in await _describe_quotas(cluster, pods) or ["none"]:
        console.line(f"{'Quota':<12}{row}")


def _show_left_out(target: str, console: Console) -> None:
    """Prints what else the file contains, such as the claim that the job waits for."""
    if not target.endswith(YAML):
        return
    for other in list_other_objects(Path(target)):
        console.line(f"{'Not created':<12}{other}: `kubectl apply -f {target}` creates it too")


async def _describe_claim(cluster: Cluster, name: str) -> str:
    try:
        exists = await cluster.has_claim(name)
    except ClientError as error:
        return f"{name}: not known: {error}"
    if exists:
        return name
    return f"{name}: not found in namespace {cluster.namespace}; create it, or the job waits for it"


async def _describe_quotas(cluster: Cluster, pods: Sequence[Object]) -> list[str]:
    try:
        quotas = await cluster.list_quotas()
    except ClientError as error:
        return [f"not known: {error}"]
    needs = sum_pods(pods)
    return [describe_quota(quota, needs) for quota in quotas]


def read_submission(options: argparse.Namespace) -> Submission:
    """Returns the job of the file with its changes, and its code. Raises ClientError."""
    if options.include and options.code is None:
        raise ClientError("--include is for the files of --code", ExitCode.USAGE)
    files = read_code(options.code, options.include) if options.code else ()
    job = read_target(options, {each.path for each in files})
    job = change_job(job, parse_config(options.config), ())
    job = change_job(job, parse_changes(options.changes), options.env_from_secret)
    check_functions(job, {each.path: each.content for each in files})
    if not files:
        return Submission(mark(job))
    code = make_code_map(str(job["metadata"]["name"]), files, read_demanded(job))
    return Submission(mark(attach_code(job, code)), code)


def read_target(options: argparse.Namespace, sent: Container[str] = ()) -> Object:
    """Returns the job of the file; `sent`: the paths of --code. Raises ClientError."""
    if options.target.endswith(YAML):
        if options.name or options.image or options.storage or options.workers != 1 or options.gpus:
            message = "--name, --image, --storage, --workers and --gpus are for a Python file; change the YAML file"
            raise ClientError(message, ExitCode.USAGE)
        jobs = read_jobs(Path(options.target))
        if len(jobs) != 1:
            raise ClientError(f"{options.target} has {len(jobs)} TrainJobs; submit takes one", ExitCode.USAGE)
        return jobs[0]
    image = options.image or os.environ.get(IMAGE_VARIABLE, "")
    missing = [name for name, value in (("--image", image), ("--storage", options.storage)) if not value]
    if missing:
        message = f"a Python file needs {' and '.join(missing)} as well"
        if "--image" in missing:
            message += f"; the variable {IMAGE_VARIABLE} may name an image for all jobs"
        raise ClientError(message, ExitCode.USAGE)
    return _read_script(options, image, sent)


def _read_script(options: argparse.Namespace, image: str, sent: Container[str]) -> Object:
    file, _ = split_target(options.target)
    path = Path(file)
    try:
        code = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ClientError(f"{path} cannot be read: {error}", ExitCode.USAGE) from None
    module = ""
    if options.code:
        module = name_module(_absolute(path), _absolute(options.code))
    if module and f"{module.replace('.', '/')}.py" not in sent:
        raise ClientError(f"{path} is not sent with --code, because it is ignored", ExitCode.USAGE)
    return build_job(
        options.target,
        code,
        image=image,
        storage=options.storage,
        name=options.name,
        workers=options.workers,
        gpus=options.gpus,
        module=module,
    )


def _absolute(path: Path) -> Path:
    """Returns the path without `..`, and with the names of links: the script may be one."""
    return Path(os.path.abspath(path))


async def _follow(cluster: Cluster, name: str, console: Console) -> int:
    """Prints the log until the job has finished, then how."""
    await follow_logs(cluster, name, Wanted(), Printer(console.log_line, remark))
    ending = await wait_for(cluster, name, "finished", timeout=None)
    Console(sys.stderr).line(ending.message)
    if ending.is_reached:
        return 0
    return 1
