"""The operator's image without docker, podman or buildah: Debian 12 from debootstrap, and /opt/venv over it.

Everything else is as the Dockerfile says, which is read for users, variables, labels and commands. Debian's part is
made once per machine and kept in the user's cache: remove the folder to get newer packages.

The release workflow has docker and does not need it. `tests/install/test_registry.py` does, where containerd of a real
node pulls the operator's image from a registry, and so does the test of `make publish`: on machines without a builder
both would otherwise push no image at all.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tools.image import NAME, PROJECT, NoBuilder, describe_commit
from tools.oci import pack_layer, read_config, write_archive

from railhead._version import __version__
from railhead.local import Echo
from railhead.local.control_plane.binaries import make_once, users_cache

SUITE = "bookworm"
PACKAGES = ("python3.11", "ca-certificates")
WHEELS = "x86_64-manylinux_2_28"
SITE = Path("opt", "venv", "lib", "python3.11", "site-packages")
# What differs from one installation to the next, or belongs to the machine, or is of no use in a container.
UNWANTED = (
    "etc/*-",
    "etc/hostname",
    "etc/machine-id",
    "etc/resolv.conf",
    "usr/share/info/*",
    "usr/share/locale/*",
    "usr/share/man/*",
    "var/cache/*/*",
    "var/lib/apt/lists/*",
    "var/lib/dpkg/*-old",
    "var/log/*",
)
EXCLUDE = ("./dev/*", "./proc/*", "./sys/*")


def find_obstacle() -> str | None:
    """Returns why no image can be built here, or None."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return "only on Linux on x86_64"
    if os.geteuid() != 0:
        return "debootstrap needs root"
    if shutil.which("debootstrap") is None:
        return "debootstrap is not installed"
    return None


def resolve_debian(echo: Echo) -> Path:
    """Returns the root file system. Raises subprocess.CalledProcessError."""
    folder = users_cache() / f"debian-{SUITE}-python3.11"
    make_once(folder, is_made=Path.is_dir, make=_install_debian, echo=echo, what="Debian's part of the images")
    return folder


def _install_debian(folder: Path, echo: Echo) -> None:
    echo("installing Debian's part of the images with debootstrap (once; a minute)")
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="debian-") as name:
        root = Path(name) / "root"
        command = ["debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", SUITE, str(root)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        clean_debian(root)
        root.rename(folder)


def clean_debian(root: Path) -> None:
    """Removes what no container needs; the licences stay."""
    documents = [folder for folder in (root / "usr/share/doc").iterdir() if not folder.is_symlink()]
    texts = [file for folder in documents for file in folder.iterdir() if file.name != "copyright"]
    for file in (*texts, *(found for pattern in UNWANTED for found in root.glob(pattern))):
        if file.is_dir() and not file.is_symlink():
            shutil.rmtree(file)
        else:
            file.unlink()
    shadow = root / "etc" / "shadow"
    # The third field is the day on which the password was set: that of the installation.
    shadow.write_text(re.sub(r"^([^:]*:[^:]*):\d+", r"\1:20000", shadow.read_text(), flags=re.MULTILINE))


def make_operator_image(archive: Path, *, wheel: Path, echo: Echo) -> None:
    """Writes the archive.

    Raises:
        NoBuilder: the machine does not allow it.
        subprocess.CalledProcessError: a command failed.
    """
    obstacle = find_obstacle()
    if obstacle:
        raise NoBuilder(f"no image can be built with debootstrap: {obstacle}")
    epoch, revision = describe_commit()
    debian = resolve_debian(echo)
    with tempfile.TemporaryDirectory(prefix="railhead-image-") as name:
        root = Path(name) / "root"
        # With its own copy of Debian, so that its Python compiles what it will run.
        subprocess.run(["cp", "--archive", "--reflink=auto", str(debian), str(root)], check=True)
        install(root, wheel)
        dockerfile = (PROJECT / "Dockerfile").read_text()
        config = read_config(dockerfile, {"VERSION": __version__, "REVISION": revision})
        layers = [
            pack_layer(debian, ".", Path(name) / "debian", epoch=int(epoch), exclude=EXCLUDE),
            pack_layer(root, "./opt/venv", Path(name) / "venv", epoch=int(epoch)),
        ]
        write_archive(archive, NAME, config, layers, epoch=int(epoch))


def install(root: Path, wheel: Path) -> None:
    """Makes /opt/venv, with the wheel and its pinned dependencies. Raises subprocess.CalledProcessError."""
    programs = root / "opt" / "venv" / "bin"
    programs.mkdir(parents=True)
    (programs / "python").symlink_to("/usr/bin/python3.11")
    (programs / "python3").symlink_to("python")
    (root / "opt" / "venv" / "pyvenv.cfg").write_text("home = /usr/bin\ninclude-system-site-packages = false\n")
    uv = str(Path(sys.executable).parent / "uv")
    command = [uv, "pip", "install", "--quiet", "--only-binary", ":all:", "--link-mode", "copy"]
    command += ["--python-version", "3.11", "--python-platform", WHEELS, "--target", str(root / SITE)]
    command += ["--constraint", str(PROJECT / "constraints.txt"), f"{wheel}[operator]"]
    subprocess.run(command, check=True)
    for program in find_programs(root / SITE / "bin"):
        text = program.read_text()
        (programs / program.name).write_text(f"#!/opt/venv/bin/python\n{text.partition(chr(10))[2]}")
        (programs / program.name).chmod(0o755)
    shutil.rmtree(root / SITE / "bin")
    forget_origin(root / SITE)
    (root / SITE / ".lock").unlink(missing_ok=True)
    environment = {"PATH": "/usr/sbin:/usr/bin", "PYTHONHASHSEED": "0"}
    python = ["chroot", str(root), "/opt/venv/bin/python"]
    compiled = [*python, "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", "/opt/venv/lib"]
    subprocess.run(compiled, env=environment, check=True)
    subprocess.run(
        [*python, "/opt/venv/bin/railhead", "version"], env=environment, check=True, stdout=subprocess.DEVNULL
    )


def find_programs(folder: Path) -> Iterator[Path]:
    """Yields the scripts that a Python runs; wheels with other programs need no change here."""
    for file in sorted(folder.iterdir()):
        with file.open("rb") as opened:
            if b"python" in opened.readline():
                yield file


def forget_origin(site: Path) -> None:
    """Removes the names of this machine's folders from what the installation of the wheel noted."""
    for name in ("direct_url.json", "uv_cache.json"):
        for file in site.glob(f"*.dist-info/{name}"):
            record = file.with_name("RECORD")
            lines = record.read_text().splitlines(keepends=True)
            record.write_text("".join(line for line in lines if f"/{name}," not in line))
            file.unlink()
