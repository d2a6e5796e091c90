"""Image archives in the format of the Open Container Initiative, packed from folders without a builder.

Layers and archive have no times, owners or order of the machine: the same folders give the same bytes.

It stays beside buildx for `debian_image.py` alone, whose docstring says who needs that. `crane mutate` sets user,
variables and commands as well, but only of images in a registry, and a release is built without one.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import shlex
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from string import Template

CHUNK_BYTES = 1 << 20
_OCI = "application/vnd.oci.image"


# How containers of an image start: the part `config` of the image's configuration.
Config = Mapping[str, object]


@dataclass(frozen=True)
class Blob:
    """A file of an archive.

    Attributes:
        content: its digest is that of the unpacked layer, where the file is a packed one.
    """

    media_type: str
    data: Path | bytes
    digest: str
    size: int
    content: str = ""

    def describe(self) -> dict[str, object]:
        return {"mediaType": self.media_type, "digest": self.digest, "size": self.size}


def read_config(dockerfile: str, values: Mapping[str, str]) -> Config:
    """Returns what the last stage of a Dockerfile sets, with the values of its arguments."""
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    variables = {"PATH": path, **values}
    config: dict[str, object] = {}
    labels: dict[str, str] = {}
    environment = {"PATH": path}
    for instruction, text in read_instructions(dockerfile):
        pairs = [Template(word).safe_substitute(variables).partition("=") for word in shlex.split(text)]
        match instruction:
            case "FROM":
                config, labels, environment = {}, {}, {"PATH": path}
            case "LABEL":
                labels |= {key: value for key, _, value in pairs}
            case "ENV":
                environment |= {key: value for key, _, value in pairs}
            case "USER":
                config["User"] = text
            case "WORKDIR":
                config["WorkingDir"] = text
            case "ENTRYPOINT" | "CMD":
                config[instruction.capitalize()] = json.loads(text)
    return {**config, "Labels": labels, "Env": [f"{key}={value}" for key, value in environment.items()]}


def read_instructions(dockerfile: str) -> list[tuple[str, str]]:
    """Returns (instruction, its text) for each, with continuation lines joined and without comments."""
    lines = [line for line in dockerfile.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ").splitlines()
    return [(words[0].upper(), words[1].strip()) for words in (line.split(None, 1) for line in joined)]


def pack_layer(root: Path, path: str, target: Path, *, epoch: int, exclude: Sequence[str] = ()) -> Blob:
    """Packs `path` below `root`. Raises subprocess.CalledProcessError."""
    command = ["tar", "--create", "--format=gnu", "--sort=name", "--numeric-owner"]
    # Older times stay: Debian's compiled modules name those of their sources.
    command += ["--clamp-mtime", f"--mtime=@{epoch}"]
    command += [*(f"--exclude={pattern}" for pattern in exclude), "--directory", str(root), path]
    content = hashlib.sha256()
    with target.open("wb") as file, gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=epoch) as packed:
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            while chunk := process.stdout.read(CHUNK_BYTES):
                content.update(chunk)
                packed.write(chunk)
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command)
    size = target.stat().st_size
    digests = f"sha256:{digest_file(target)}", f"sha256:{content.hexdigest()}"
    return Blob(f"{_OCI}.layer.v1.tar+gzip", target, digests[0], size, content=digests[1])


def digest_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_archive(target: Path, tag: str, config: Config, layers: Sequence[Blob], *, epoch: int) -> None:
    """Writes the archive of an image for amd64, which containerd, docker, podman and skopeo read."""
    platform = {"architecture": "amd64", "os": "linux"}
    created = datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    file_system = {"type": "layers", "diff_ids": [layer.content for layer in layers]}
    about = _json("config.v1+json", {**platform, "created": created, "config": config, "rootfs": file_system})
    links = {"config": about.describe(), "layers": [layer.describe() for layer in layers]}
    manifest = _json("manifest.v1+json", {"schemaVersion": 2, "mediaType": f"{_OCI}.manifest.v1+json", **links})
    names = {"io.containerd.image.name": tag, "org.opencontainers.image.ref.name": tag.rpartition(":")[2]}
    entry = {**manifest.describe(), "platform": platform, "annotations": names}
    with tarfile.open(target, "w", format=tarfile.GNU_FORMAT) as tar:
        _add(tar, "oci-layout", json.dumps({"imageLayoutVersion": "1.0.0"}).encode(), epoch)
        for blob in (*layers, about, manifest):
            _add(tar, f"blobs/{blob.digest.replace(':', '/')}", blob.data, epoch)
        _add(tar, "index.json", json.dumps({"schemaVersion": 2, "manifests": [entry]}).encode(), epoch)


def _json(kind: str, value: Mapping[str, object]) -> Blob:
    data = json.dumps(value, sort_keys=True).encode()
    return Blob(f"{_OCI}.{kind}", data, f"sha256:{hashlib.sha256(data).hexdigest()}", len(data))


def _add(tar: tarfile.TarFile, name: str, data: Path | bytes, epoch: int) -> None:
    entry = tarfile.TarInfo(name).replace(mtime=epoch)
    with io.BytesIO(data) if isinstance(data, bytes) else data.open("rb") as file:
        entry.size = file.seek(0, io.SEEK_END)
        file.seek(0)
        tar.addfile(entry, file)
