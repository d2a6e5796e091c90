"""The commands with their options and arguments, as a user types them.

It imports nothing that takes time: the module of a command is imported when the command runs.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from railhead._version import __version__
from railhead.cli import operator
from railhead.client.goals import GOALS
from railhead.contract.job_input import DASHBOARD_PORT

# argparse has no public name for it, and makes it generic for type checkers only
Subparsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
SCREEN = ("table", "json", "yaml")
LIST_FORMATS = ("table", "wide", "json", "yaml", "name")
PAGE_PORT = 8700
SHELLS = ("bash", "zsh", "fish")
IMAGE_VARIABLE = "RAILHEAD_IMAGE"  # of the environment: the image of a script without --image
SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Returns the options; `words` are those after --, which argparse would mix with the options of `exec`."""
    own = list(arguments)
    words = []
    if own[:1] == ["exec"] and "--" in own:
        end = own.index("--")
        own, words = own[:end], own[end + 1 :]
    return build_parser().parse_args(own, argparse.Namespace(words=words))


def build_parser() -> argparse.ArgumentParser:
    """Returns the parser of all commands. Each sets `module`, of this package, which has `do_COMMAND`."""
    parser = argparse.ArgumentParser(prog="railhead", description="Distributed training with Ray Train on Kubernetes.")
    parser.add_argument("--version", action="version", version=f"railhead {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND", dest="command")
    _add_lists(commands)
    _add_readers(commands)
    _add_logs(commands)
    _add_results(commands)
    _add_runs(commands)
    _add_page(commands)
    _add_pods(commands)
    _add_submit(commands)
    _add_changes(commands)
    doctor = (
        "Check whether the cluster is ready for TrainJobs; it changes nothing. The exit code is 1 if a check found an "
        "error, else 4 if the user may not make all checks, else 0."
    )
    _add_for_cluster(commands, "doctor", doctor, "doctor", formats=SCREEN, has_name=False, is_for_all=True)
    _add_offline(commands)
    _add_local(commands)
    operator.add_arguments(_add(commands, "operator", operator.__doc__, "operator"))
    version = "Print the versions that belong together: Railhead, Ray, the driver and the resource."
    _add(commands, "version", version, "versions")
    return parser


def _add(commands: Subparsers, name: str, text: str | None, module: str) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=text, description=text)
    parser.set_defaults(module=module, command=name)
    return parser


def _add_for_cluster(
    commands: Subparsers,
    name: str,
    text: str,
    module: str,
    *,
    formats: tuple[str, ...] = (),
    has_name: bool = True,
    is_for_all: bool = False,
) -> argparse.ArgumentParser:
    """Adds a command that talks to a cluster; `formats`: what -o takes, the first one is the default."""
    parser = _add(commands, name, text, module)
    if has_name:
        parser.add_argument("name", metavar="NAME", type=job_name, help="the TrainJob")
    target = parser.add_argument_group("cluster")
    target.add_argument("--kubeconfig", metavar="FILE", help="default: $KUBECONFIG, else ~/.kube/config")
    target.add_argument("--context", metavar="NAME", help="context of the kubeconfig (default: its current one)")
    target.add_argument("-n", "--namespace", metavar="NAME", help="default: the context's namespace")
    if is_for_all:
        target.add_argument("-A", "--all-namespaces", action="store_true", help="jobs of all namespaces")
    if formats:
        parser.add_argument("-o", "--output", choices=formats, default=formats[0], help="default: %(default)s")
    return parser


def job_name(text: str) -> str:
    """Returns the name; any other text would become another path of the API. Raises ArgumentTypeError."""
    if not re.fullmatch(r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a valid TrainJob name")
    return text


def count(text: str) -> int:
    """Returns a number from 0. Raises ArgumentTypeError."""
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0")
    return int(text)


def duration(text: str) -> int:
    """Returns seconds. Raises ArgumentTypeError."""
    found = re.fullmatch(r"([0-9]{1,7})([smhd]?)", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time; use for example 90s, 20m or 2h")
    return int(found[1]) * SECONDS[found[2]]


def _add_run_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of a command that reads the files of a run."""
    run = parser.add_argument_group("files of the run")
    run.add_argument("--folder", metavar="PATH|URI", help="a copy of the run's folder, on this machine or in a store")
    _add_ways(run)


def _add_ways(run: argparse._ArgumentGroup) -> None:
    """Adds the options about the ways to a run's folder."""
    run.add_argument("--reader-image", metavar="IMAGE", help="with python3, for a claim that no pod mounts")
    run.add_argument(
        "--endpoint",
        metavar="[SCHEME://]HOST[:PORT]",
        action="append",
        default=[],
        help="a server of a store that may have your credentials, as spec.run.storagePath wants it; may be repeated "
        "(default: those of RAILHEAD_ENDPOINTS, AWS_ENDPOINT_URL_S3 and AWS_ENDPOINT_URL, and the clouds' own)",
    )


def _add_lists(commands: Subparsers) -> None:
    text = "List TrainJobs: phase, progress, remaining time, and what each one waits for."
    list_ = _add_for_cluster(commands, "list", text, "jobs", formats=LIST_FORMATS, has_name=False, is_for_all=True)
    text = "Show the TrainJobs that hold most GPUs first: phase, progress, remaining time, goodput, attempts and age."
    top = _add_for_cluster(commands, "top", text, "jobs", formats=SCREEN, has_name=False, is_for_all=True)
    sort = "gpus: of running worker pods, the most first; age: the oldest job first (default: %(default)s)"
    top.add_argument("--sort", choices=("gpus", "age"), default="gpus", help=sort)
    watch = {list_: "print each job again when it changes", top: "show a new table when a job changes, until Ctrl-C"}
    for parser, help_ in watch.items():
        parser.add_argument("-l", "--selector", default="", help="only jobs with these labels, for example team=a")
        parser.add_argument("-w", "--watch", action="store_true", help=help_)


def _add_readers(commands: Subparsers) -> None:
    text = "Show one TrainJob on one screen: what it does, attempts, checkpoint, last events, what to do next."
    _add_for_cluster(commands, "status", text, "read", formats=SCREEN)
    text = "Explain why a TrainJob waits, is slow, hangs or failed, and what to do about it."
    _add_for_cluster(commands, "why", text, "read", formats=SCREEN)
    text = "Show what happened to a TrainJob, in order; what is not known any more is marked as a gap."
    timeline = _add_for_cluster(commands, "timeline", text, "read", formats=SCREEN)
    timeline.add_argument("--journal", action="store_true", help="also what the run's folder has of it")
    _add_run_options(timeline)


def _add_logs(commands: Subparsers) -> None:
    text = (
        "Print the log of a TrainJob's head pod, which has the driver's lines and those of the ranks it forwards; "
        "from the archive in the run's folder if the pod is gone."
    )
    logs = _add_for_cluster(commands, "logs", text, "logs")
    which = logs.add_mutually_exclusive_group()
    which.add_argument("--rank", type=count, metavar="R", help="the lines of this rank, from the worker pods")
    which.add_argument("--all", dest="is_all", action="store_true", help="the lines of all pods, each with its pod")
    logs.add_argument("-f", "--follow", action="store_true", help="wait for pods and lines until the job has finished")
    logs.add_argument("--attempt", type=count, metavar="N", help="the lines of this attempt (default: the newest)")
    logs.add_argument("--tail", type=count, metavar="N", help="at most the last N lines of each pod so far")
    logs.add_argument("--since", type=duration, metavar="TIME", help="the lines of the last 90s, 20m or 2h")
    _add_run_options(logs)


def _add_results(commands: Subparsers) -> None:
    text = "Show the curves of what rank 0 has reported, from the run's folder, of one TrainJob or of several."
    metrics = _add_for_cluster(commands, "metrics", text, "results", formats=(*SCREEN, "csv"), has_name=False)
    metrics.add_argument("names", metavar="NAME", type=job_name, nargs="+", help="the TrainJobs")
    metrics.add_argument("--metric", metavar="M", action="append", default=[], help="only this one; may be repeated")
    metrics.add_argument("--plot", metavar="FILE", type=Path, help="draw them into this .png or .svg file")
    _add_run_options(metrics)
    text = "List the checkpoints of a TrainJob's run, check their files, or copy one here. None is loaded."
    checkpoints = _add_for_cluster(commands, "checkpoints", text, "results", formats=SCREEN)
    what = checkpoints.add_mutually_exclusive_group()
    what.add_argument("--download", metavar="DIR", type=Path, help="copy a checkpoint into this new folder")
    intact = "check by lengths and checksums in the files that they are intact, which reads them; exit code 1 if not"
    what.add_argument("--verify", action="store_true", help=intact)
    which = "a name, best or newest (default: all, and for --download the best, else the newest)"
    checkpoints.add_argument("--checkpoint", metavar="C", default="", help=which)
    _add_run_options(checkpoints)


def _add_runs(commands: Subparsers) -> None:
    text = (
        "List the runs of a storage, also those whose TrainJobs are gone: state, duration, attempts, goodput, best "
        "metric and newest checkpoint. With NAME show one of them: attempts, checkpoints and what happened. Needs no "
        "cluster."
    )
    runs = _add(commands, "runs", text, "runs")
    storage = "as in spec.run.storagePath: a URI, or a path of this machine; your own credentials are sent there"
    runs.add_argument("storage", metavar="STORAGE", help=storage)
    runs.add_argument("name", metavar="NAME", nargs="?", help="the folder of one run")
    runs.add_argument("-o", "--output", choices=SCREEN, default=SCREEN[0], help="default: %(default)s")


def _add_page(commands: Subparsers) -> None:
    text = (
        "Serve a page of the TrainJobs on this machine: what each does and why, curves, timeline, ranks, checkpoints, "
        "logs. It only reads, with your own rights, and answers only to the browser that has its token."
    )
    page = _add_for_cluster(commands, "ui", text, "ui", has_name=False, is_for_all=True)
    page.add_argument("-l", "--selector", default="", help="only jobs with these labels, for example team=a")
    page.add_argument("--port", type=count, default=PAGE_PORT, metavar="N", help="0 = any (default: %(default)s)")
    storage = "show its runs, too, also those whose TrainJobs are gone, as `railhead runs` does; may be repeated"
    page.add_argument("--storage", metavar="PATH|URI", action="append", default=[], help=storage)
    _add_ways(page.add_argument_group("files of the runs"))
    text = (
        "Forward Ray's own dashboard of a running TrainJob with spec.ray.dashboard to this machine, and print its "
        "address; on a terminal also the token that it asks for. Needs kubectl."
    )
    dashboard = _add_for_cluster(commands, "dashboard", text, "dashboard")
    port = "of this machine; 0 = any (default: %(default)s)"
    dashboard.add_argument("--port", type=count, default=DASHBOARD_PORT, metavar="N", help=port)
    dashboard.add_argument("--open", action="store_true", help="open the address in the browser of this machine")


def _add_pods(commands: Subparsers) -> None:
    text = (
        "Show the Python stacks of all ranks: each different stack once, that of the fewest ranks first, since the "
        "others usually wait for those ranks. Training continues. Needs kubectl."
    )
    _add_for_cluster(commands, "stacks", text, "pods", formats=SCREEN)
    text = (
        "Run a command in the pod of a rank, or in the head pod: railhead exec NAME --rank 3 -- nvidia-smi. "
        "Without a command it is a shell. Needs kubectl."
    )
    exec_ = _add_for_cluster(commands, "exec", text, "pods")
    exec_.add_argument("--rank", type=count, metavar="R", help="of the rank (default: the head pod)")


def _add_submit(commands: Subparsers) -> None:
    text = "Create the TrainJob of a YAML file, or of a Python file and its function, after a check and a question."
    submit = _add_for_cluster(commands, "submit", text, "submit", has_name=False)
    submit.add_argument("target", metavar="TARGET", help="job.yaml, or train.py:train_func")
    submit.add_argument("-f", "--follow", action="store_true", help="print its log until it has finished")
    submit.add_argument("--dry-run", action="store_true", help="only check it, and print what it will take")
    submit.add_argument("-y", "--yes", action="store_true", help="do not ask")
    _add_set(submit)
    config = "an entry of trainer.trainLoopConfig, such as lr=0.05; the value is YAML, so 3 is a number (repeatable)"
    submit.add_argument("--config", action="append", default=[], metavar="KEY=VALUE", help=config)
    secret = "all keys of this Secret become environment variables (repeatable)"
    submit.add_argument("--env-from-secret", action="append", default=[], metavar="SECRET", help=secret)
    code = submit.add_argument_group("code in several files")
    folder = "send the files of this folder that git does not ignore: at most 128, and 900 KiB"
    code.add_argument("--code", metavar="FOLDER", type=Path, help=folder)
    include = "send these files although they look like credentials or are links to elsewhere (repeatable)"
    code.add_argument("--include", action="append", default=[], metavar="GLOB", help=include)
    script = submit.add_argument_group("of a Python file, which without --code becomes spec.source.inline")
    script.add_argument("--name", default="", help="default: that of the file")
    script.add_argument(
        "--image", metavar="IMAGE", help=f"has Ray and the packages that the file imports (default: ${IMAGE_VARIABLE})"
    )
    script.add_argument("--storage", metavar="URI", help="such as s3://bucket/runs, or pvc:NAME/PATH in a claim")
    script.add_argument("--workers", type=count, default=1, metavar="N", help="default: %(default)s")
    script.add_argument("--gpus", type=count, default=0, metavar="N", help="GPUs per worker (default: %(default)s)")


def _add_set(parser: argparse.ArgumentParser) -> None:
    text = "change a field: image=IMAGE, scaling.resourcesPerWorker.memory=64Gi, or null to remove it (repeatable)"
    parser.add_argument("--set", dest="changes", action="append", default=[], metavar="PATH=VALUE", help=text)


def _add_timeout(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--timeout", type=duration, metavar="TIME", help="such as 90s, 20m or 2h (default: none)")


def _add_changes(commands: Subparsers) -> None:
    text = "Wait until a TrainJob is in a state. Ctrl-C ends the command, not the job."
    wait = _add_for_cluster(commands, "wait", text, "change")
    wait.add_argument("--for", dest="goal", choices=GOALS, default="finished", help="default: %(default)s")
    _add_timeout(wait)
    text = "Suspend a TrainJob: it commits a last checkpoint and releases its pods."
    suspend = _add_for_cluster(commands, "suspend", text, "change")
    suspend.add_argument("--wait", action="store_true", help="until it has no pods")
    suspend.set_defaults(goal="suspended")
    _add_timeout(suspend)
    text = "Resume a suspended TrainJob from its last checkpoint, with changed fields if wanted."
    resume = _add_for_cluster(commands, "resume", text, "change")
    _add_set(resume)
    _add_timeout(resume)
    text = "Create a TrainJob that continues a finished one from its checkpoint; the finished one stays."
    retry = _add_for_cluster(commands, "retry", text, "change")
    _add_set(retry)
    retry.add_argument("--name", dest="new_name", default="", metavar="NAME", help="default: NAME-r2, NAME-r3, ...")
    text = "Delete TrainJobs. Their checkpoints stay in the storage. Asks before it deletes more than one."
    delete = _add_for_cluster(commands, "delete", text, "change", has_name=False, is_for_all=True)
    delete.add_argument("names", nargs="*", type=job_name, metavar="NAME", help="the TrainJobs")
    delete.add_argument("-l", "--selector", default="", help="the jobs with these labels")
    delete.add_argument("-y", "--yes", action="store_true", help="do not ask")


def _add_offline(commands: Subparsers) -> None:
    text = "Print what the operator would create for the TrainJobs of a file, without a cluster. Tokens are hidden."
    render = _add(commands, "render", text, "offline")
    render.add_argument("file", metavar="FILE", type=Path, help="manifests with TrainJobs")
    text = "Print what makes a shell complete commands, options and values, for its start-up file."
    completion = _add(commands, "completion", text, "completion")
    completion.add_argument("shell", metavar="SHELL", choices=SHELLS, help=", ".join(SHELLS))


def _add_local(commands: Subparsers) -> None:
    local = commands.add_parser("local", help="a Kubernetes cluster on this machine, with Railhead in it")
    commands = local.add_subparsers(title="commands", required=True, metavar="COMMAND")
    up = _add(commands, "up", "Start a cluster on this machine: control plane, node agent, operator.", "local")
    without = "do not install Railhead, to try its chart or manifests"
    up.add_argument("--without-operator", action="store_true", help=without)
    gang = "turn on Kubernetes' own gang scheduler (spec.scheduling.gangScheduler: PodGroup)"
    up.add_argument("--gang", action="store_true", help=gang)
    text = "Stop the cluster on this machine, even after a crash. Logs and volumes stay in its folder."
    down = _add(commands, "down", text, "local")
    text = "Show whether the cluster on this machine is up. Exit code 0 if it is."
    status = _add(commands, "status", text, "local")
    text = "Run one job on this machine: start the cluster, apply the file, follow the job. Exit code 0 if it succeeds."
    run = _add(commands, "run", text, "local")
    run.add_argument("-f", "--file", type=Path, required=True, help="manifests, with exactly one TrainJob")
    run.add_argument("--keep", action="store_true", help="keep the cluster up afterwards")
    for each in (up, run):
        gpus = "number of GPUs that the node advertises (nvidia.com/gpu)"
        each.add_argument("--gpus", type=count, default=0, metavar="N", help=gpus)
    for each in (up, down, status, run):
        folder = "folder of the session (default: %(default)s)"
        each.add_argument("--dir", type=Path, default=default_folder(), help=folder)


def default_folder() -> Path:
    """Returns the folder of a local session, unless --dir names another one."""
    return Path(os.environ.get("RAILHEAD_LOCAL_DIR") or Path.home() / ".railhead" / "local")
