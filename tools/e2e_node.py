"""`make e2e-node`: the end-to-end tests on a real kubelet and containerd, on this machine.

Starts a single-node cluster with the scripts in RAILHEAD_NODE_SCRIPTS (default: a folder
beside the checkout), builds an image of this tree and one for the jobs, runs `make
e2e-install` and `make e2e` against it, and stops the cluster. If the machine does not
allow it (no root, no scripts, no apt, a node that does not start), it reports that plainly
and exits 0: none of our own code was tested. RAILHEAD_NODE_REQUIRED makes that a failure.

`--prepare` only does what takes minutes on a new machine, so that it can run beside other
tests; the following run waits for it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
SCRIPTS = Path(os.environ.get("RAILHEAD_NODE_SCRIPTS") or PROJECT.parent / "shared" / "node")
CACHE = Path(os.environ.get("RAILHEAD_NODE_DIR") or Path.home() / ".cache" / "railhead-node")
UV = PROJECT / ".venv" / "bin" / "uv"
OPERATOR_IMAGE = "localhost/railhead-operator:e2e"
JOB_IMAGE = "localhost/railhead-examples:e2e"
PROGRAMS = ("containerd", "runc", "nft", "conntrack", "debootstrap", "gcc", "openssl", "ip", "iptables")
# What the base image lacks; it has Ray, torch, kopf, kubernetes and pydantic.
OPERATOR_NEEDS = ("cryptography", "cffi", "pycparser", "prometheus-client")
EXAMPLES_NEED = ("scikit-learn", "scipy", "joblib", "cloudpickle", "threadpoolctl", "narwhals")
# Each process has a namespace. On two processors there is room for the pods of two jobs. The tests with the marker
# kill no operator, so they do not disturb each other.
SIDE_BY_SIDE = ("-n", "2", "--dist", "loadscope", "--durations=5")
BEGAN = time.monotonic()


def echo(text: str) -> None:
    print(f"e2e-node [{time.monotonic() - BEGAN:4.0f} s] {text}", flush=True)


def find_obstacle() -> str | None:
    """Why no node can be started here, or None."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return f"the node's scripts are for Linux on x86_64, this is {platform.system()} on {platform.machine()}"
    if os.geteuid() != 0:
        return "a kubelet and containerd need root"
    if not (SCRIPTS / "20-up.sh").is_file():
        return "the scripts that start a node are missing (RAILHEAD_NODE_SCRIPTS names their folder)"
    if shutil.which("go") is None:
        return "Go is needed to build Kubernetes"
    if not _has_programs() and shutil.which("apt-get") is None:
        return f"containerd and its companions ({', '.join(PROGRAMS)}) are not installed, and there is no apt-get"
    if (CACHE / "run" / "pids" / "containerd").exists():
        return "a node is already up (90-down.sh of its scripts stops it)"
    return None


def _has_programs() -> bool:
    return all(shutil.which(program) for program in PROGRAMS)


def step(script: str, *arguments: str) -> None:
    """Runs one of the node's scripts. Raises CalledProcessError."""
    echo(" ".join((script.removesuffix(".sh"), *arguments[-1:])))
    subprocess.run([str(SCRIPTS / script), *arguments], check=True, stdout=subprocess.DEVNULL)


def prepare() -> None:
    """Programs and the base image: minutes the first time, nothing afterwards."""
    os.environ["PATH"] = f"{UV.parent}:{os.environ['PATH']}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / "prepare.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one that runs beside the other tests may not have finished
        if not _has_programs():
            step("00-packages.sh")
        build()
        step("30-rootfs.sh")


def build() -> None:
    """Kubernetes, etcd and CoreDNS, unless the same version of the scripts has built them."""
    stamp = CACHE / "built-by"
    wanted = hashlib.sha256(b"".join((SCRIPTS / name).read_bytes() for name in ("lib.sh", "10-build.sh"))).hexdigest()
    if stamp.exists() and stamp.read_text() == wanted:
        return
    echo("building Kubernetes, etcd and CoreDNS from source: some minutes, once")
    # First, or after a build under way: most packages are shared, and two builds at once would compile them twice.
    subprocess.run([sys.executable, "-m", "tools.programs"], cwd=PROJECT, check=False)
    step("10-build.sh")
    stamp.write_text(wanted)


def install_into(folder: Path, *needs: str, is_ours: bool = False) -> None:
    """A layer over the base image's environment: packages at the pinned versions, and this tree as a package."""
    packages = folder / "lib" / "python3.11" / "site-packages"
    command = [str(UV), "pip", "install", "--quiet", "--no-deps", "--python-version", "3.11", "--target", str(packages)]
    subprocess.run([*command, "--constraint", str(PROJECT / "constraints.txt"), *needs], check=True)
    if is_ours:
        subprocess.run([*command, str(PROJECT)], check=True)
        program = folder / "bin" / "railhead"
        program.parent.mkdir()
        program.write_text("#!/opt/venv/bin/python\nimport sys\nfrom railhead.cli.main import main\nsys.exit(main())\n")
        program.chmod(0o755)
    shutil.rmtree(packages / "bin", ignore_errors=True)


def make_images(folder: Path) -> None:
    echo("building an image of this tree, and one for the jobs")
    install_into(folder / "operator", *OPERATOR_NEEDS, is_ours=True)
    install_into(folder / "examples", *EXAMPLES_NEED)
    step("45-derived.sh", str(folder / "operator"), "/opt/venv", OPERATOR_IMAGE)
    step("45-derived.sh", str(folder / "examples"), "/opt/venv", JOB_IMAGE)


def run_tests(volumes: Path, arguments: list[str]) -> int:
    """As against any other cluster; those of the installation first, because they need an empty one.

    Arguments other than a marker select among the end-to-end tests.
    """
    variables = {
        "KUBECONFIG": str(CACHE / "run" / "admin.kubeconfig"),
        "KUBECTL": str(CACHE / "bin" / "kubectl"),
        "OPERATOR_IMAGE": OPERATOR_IMAGE,
        "JOB_IMAGE": JOB_IMAGE,
        "VOLUME_FOLDER": str(volumes),
    }
    codes, is_marked = [], arguments[:1] == ["-m"]
    for target in ("e2e-install", "e2e") if is_marked or not arguments else ("e2e",):
        echo(f"make {target}")
        own = [*arguments, *(SIDE_BY_SIDE if is_marked and target == "e2e" else ())]
        variables["MAY_SELECT_NONE"] = "" if target == "e2e" else "yes"  # the arguments may all be about `e2e`
        make = ["make", "--no-print-directory", "-C", str(PROJECT), target, f"E2E_ARGS={shlex.join(own)}"]
        codes.append(subprocess.run([*make, *(f"{k}={v}" for k, v in variables.items())], check=False).returncode)
    return max(codes, key=abs)


def start_node() -> str | None:
    """Why there is no node after all, or None; none of our own code has run by then."""
    try:
        prepare()
        step("20-up.sh")
        step("40-images.sh")
    except subprocess.CalledProcessError as error:
        return f"{Path(error.cmd[0]).name} exited with code {error.returncode}; its output is above"
    return None


def prepare_only() -> int:
    """Reports a failure here; the following run reports it again."""
    try:
        prepare()
    except subprocess.CalledProcessError as error:
        return not_run(f"{Path(error.cmd[0]).name} exited with code {error.returncode}")
    return 0


def not_run(why: str) -> int:
    echo(f"NOT RUN: {why}")
    return 1 if os.environ.get("RAILHEAD_NODE_REQUIRED") else 0


def main(arguments: list[str]) -> int:
    obstacle = find_obstacle()
    if obstacle:
        return not_run(obstacle)
    if arguments == ["--prepare"]:
        return prepare_only()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # takes the node down too
    with tempfile.TemporaryDirectory(prefix="railhead-e2e-node-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # pods that run as other users need the volumes below
        try:
            obstacle = start_node()
            if obstacle:
                return not_run(obstacle)
            make_images(folder / "images")
            return run_tests(folder / "volumes", arguments)
        except subprocess.CalledProcessError as error:
            echo(f"{error.cmd[0]} exited with code {error.returncode}; its output is above")
            return 1
        finally:
            echo("down")
            subprocess.run([str(SCRIPTS / "90-down.sh"), "--purge"], check=False, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
