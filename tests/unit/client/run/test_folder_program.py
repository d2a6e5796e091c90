"""The program that reads a folder: nothing outside of it, no link, and exactly the bytes that are wanted."""

from __future__ import annotations

import io
import json
import os
import pickle
import zipfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from railhead.client.run import folder_program
from railhead.client.run.folder_program import FileCheck, check_file, list_files, main, read_file


@pytest.fixture
def root(tmp_path: Path) -> str:
    run = tmp_path / "run"
    (run / "checkpoint_1" / "parts").mkdir(parents=True)
    (run / "checkpoint_1" / "parts" / "a").write_bytes(b"abc")
    (run / "state.json").write_bytes(b"{}")
    (tmp_path / "secret").write_bytes(b"secret")
    (run / "checkpoint_1" / "file-link").symlink_to(tmp_path / "secret")
    (run / "checkpoint_1" / "folder-link").symlink_to(tmp_path)
    (run / "link").symlink_to(tmp_path)
    os.mkfifo(run / "pipe")
    return str(run)


def test_regular_files_are_listed_and_links_and_pipes_are_not(root: str) -> None:
    found = list_files(root, ["checkpoint_1", "state.json", "pipe", "link", "link/secret", "gone", "gone/too"])
    assert [(name, size) for name, size, _ in found] == [("checkpoint_1/parts/a", 3), ("state.json", 2)]


def test_a_folder_that_only_windows_takes_for_one_is_not_entered(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "walk", partial(os.walk, followlinks=True))  # so does Python 3.11 with a junction
    assert [name for name, _, _ in list_files(root, ["checkpoint_1"])] == ["checkpoint_1/parts/a"]


@pytest.mark.parametrize("name", ["../secret", "checkpoint_1/../../secret", "/etc/passwd"])
def test_nothing_outside_is_listed_or_read(root: str, name: str) -> None:
    for attempt in (lambda: list(list_files(root, [name])), lambda: list(read_file(root, name, 1))):
        with pytest.raises(OSError, match="is not below the folder"):
            attempt()


@pytest.mark.parametrize("name", ["checkpoint_1/file-link", "link/secret", "checkpoint_1/folder-link/secret"])
def test_a_link_is_not_followed(root: str, name: str) -> None:
    with pytest.raises(OSError):
        list(read_file(root, name, 1))


def test_a_file_that_grows_is_read_up_to_the_size_and_a_shorter_one_is_an_error(root: str) -> None:
    assert b"".join(read_file(root, "checkpoint_1/parts/a", 2)) == b"ab"
    with pytest.raises(OSError, match="has become shorter"):
        list(read_file(root, "checkpoint_1/parts/a", 4))


def test_a_check_sends_something_for_each_file_so_that_no_proxy_ends_the_connection(
    root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output, name = io.BytesIO(), "checkpoint_1/parts/a"
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(output))
    main({"root": str(tmp_path / "run"), "list": [], "send": [], "check": [(name, 3), (name, 3)]})
    assert output.getvalue() == b'\n\n[["", null], ["", null]]'


@dataclass
class _StorageInfo:
    """As torch.distributed.checkpoint has it in its index, which is a pickle."""

    relative_path: str
    offset: int
    length: int


def write_zip(compression: int = zipfile.ZIP_STORED) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", compression) as archive:
        archive.writestr("archive/data.pkl", b"weights" * 20)
    return data.getvalue()


def write_tensors() -> bytes:
    header = json.dumps({"__metadata__": {}, "a": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}).encode()
    return len(header).to_bytes(8, "little") + header + bytes(16)


def write_index(protocol: int) -> bytes:
    parts = [("__0_0.distcp", 0, 700), ("__1_0.distcp", 70_000, 5), ("__0_0.distcp", 700, 90)]
    return pickle.dumps({"storage_data": [_StorageInfo(*part) for part in parts]}, protocol)


INDEX = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
FORMATS: dict[str, tuple[bytes, dict[str, int]]] = {
    "model.pt": (write_zip(), {}),
    "epoch=1.ckpt": (write_zip(), {}),
    "arrays.npz": (write_zip(), {}),
    "model.safetensors": (write_tensors(), {}),
    "parts/.metadata": (write_index(4), {"__0_0.distcp": 790, "__1_0.distcp": 70_005}),
    ".metadata": (write_index(2), {"__0_0.distcp": 790, "__1_0.distcp": 70_005}),
    "epoch.json": (b' {"epoch": 3}', {}),
    "model.safetensors.index.json": (
        json.dumps(INDEX).encode(),
        {"model-1.safetensors": 1, "model-2.safetensors": 1},
    ),
}


@pytest.mark.parametrize("name", FORMATS)
def test_a_file_that_is_cut_off_anywhere_is_not_complete(name: str) -> None:
    data, needs = FORMATS[name]
    assert check_file(io.BytesIO(data), name, len(data)) == ("", needs)
    for size in range(4 if name.endswith(".ckpt") else 0, len(data)):  # a shorter one does not tell its format
        problem, found = check_file(io.BytesIO(data[:size]), name, size)
        assert problem.startswith("it is damaged") and found is None, size


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_changed_byte_in_a_zip_archive_is_found_by_its_checksum(compression: int) -> None:
    data = bytearray(write_zip(compression))
    data[data.index(b"data.pkl") + 12] ^= 1
    problem, found = check_file(io.BytesIO(data), "model.pt", len(data))
    assert problem.startswith("it is damaged (") and found is None


def test_an_archive_that_was_written_without_checksums_is_no_damage() -> None:
    data = write_zip()
    checksum = zipfile.ZipFile(io.BytesIO(data)).infolist()[0].CRC.to_bytes(4, "little")
    assert data.count(checksum) == 2, "in the entry and in the directory"
    data = data.replace(checksum, bytes(4))
    assert check_file(io.BytesIO(data), "model.pt", len(data)) == ("", {})


def test_an_archive_that_lists_its_bytes_many_times_is_not_read() -> None:
    data = bytearray(write_zip())
    begin = data.index(b"PK\x01\x02")
    entry = data[begin : data.index(b"PK\x05\x06")]
    end = data[begin + len(entry) :]
    end[8:12] = (9).to_bytes(2, "little") * 2
    end[12:16] = (9 * len(entry)).to_bytes(4, "little")
    data[begin:] = entry * 9 + end
    problem, _ = check_file(io.BytesIO(data), "model.pt", 700)
    assert "its entries overlap" in problem


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("model.bin", b"weights"),
        ("model.pt", pickle.dumps("of an older torch")),
        ("result.json", b'{"step": 1}\n{"step": 2}\n{"st'),
        ("__0_0.distcp", b""),
    ],
)
def test_a_format_that_does_not_tell_its_end_is_no_damage(name: str, data: bytes) -> None:
    problem, needs = check_file(io.BytesIO(data), name, len(data))
    assert (problem, needs) == ("", {} if name.endswith(".json") else None)


class Bomb:
    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, ("/tmp/railhead-was-loaded",)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        (".metadata", pickle.dumps([Bomb(), "relative_path", 7, "offset", "x", "length", None])),
        ("a.safetensors", (1 << 63).to_bytes(8, "little") + b"{}"),
        ("a.safetensors", (4).to_bytes(8, "little") + b"[[]]"),
        ("a.json", b"[" * 100_000),
        ("a.index.json", b"[]"),
        ("a.pt", b"PK\x03\x04" + bytes(100)),
    ],
)
def test_a_hostile_file_is_read_and_not_loaded(name: str, data: bytes) -> None:
    problem, needs = check_file(io.BytesIO(data), name, len(data))
    assert (problem == "") == (name == ".metadata") and not needs
    assert not os.path.exists("/tmp/railhead-was-loaded")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_what_torch_writes_is_complete_until_it_is_cut_off(tmp_path: Path) -> None:
    import torch
    from torch.distributed.checkpoint.state_dict_saver import save

    state = {"weights": torch.ones(3000), "bias": torch.ones(7)}
    torch.save(state, tmp_path / "model.pt")
    save(dict(state), checkpoint_id=tmp_path / "parts", no_dist=True)
    for name in ("model.pt", "parts/.metadata"):
        data = (tmp_path / name).read_bytes()
        problem, needs = check_file(io.BytesIO(data), name, len(data))
        assert problem == "" and needs is not None
        if name == "parts/.metadata":
            [(part, least)] = needs.items()
            assert (tmp_path / "parts" / part).stat().st_size == least
        assert check_file(io.BytesIO(data[:-1]), name, len(data) - 1)[0]
    torch.serialization.set_crc32_options(False)
    torch.save(state, tmp_path / "model.pt")
    torch.serialization.set_crc32_options(True)
    data = (tmp_path / "model.pt").read_bytes()
    assert check_file(io.BytesIO(data), "model.pt", len(data)) == ("", {})


def test_an_archive_that_expands_without_end_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_program, "EXPANDED_BYTES", 1 << 20)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("data", b"\0" * (4 << 20))
    size = len(buffer.getvalue())
    assert size < 10_000
    assert check_file(io.BytesIO(buffer.getvalue()), "weights.npz", size) == FileCheck("", None)


def test_large_json_is_not_parsed() -> None:
    data = b"[" + b"[]," * (6 << 20) + b"[]]"
    assert check_file(io.BytesIO(data), "large.json", len(data)) == FileCheck("", None)
    header = len(data).to_bytes(8, "little") + data
    assert check_file(io.BytesIO(header), "large.safetensors", len(header)) == FileCheck("", None)
