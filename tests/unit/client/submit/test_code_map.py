"""The ConfigMap of a folder, the source that mounts it, and the job that waits for it."""

from __future__ import annotations

from railhead.api.names import MAX_JOB_NAME
from railhead.api.source import Source
from railhead.client.submit.code_files import CodeFile
from railhead.client.submit.code_map import (
    build_release,
    compare_files,
    has_same_content,
    hold,
    is_held,
    make_code_map,
    read_demanded,
)
from railhead.client.submit.spec_changes import merge
from railhead.json_object import Object

FILES = (CodeFile("pkg/__init__.py", b""), CodeFile("pkg/model.py", b"x"), CodeFile("weights.bin", b"\xff\x00"))
JOB: Object = {"metadata": {"name": "a", "annotations": {"mine": "1"}}, "spec": {"image": "i"}}


def test_the_source_mounts_each_key_at_its_path() -> None:
    code = make_code_map("a", FILES)
    body = code.build("team-a", "a", "uid-1")
    assert body["data"] == {"0-__init__.py": "", "1-model.py": "x"}
    assert body["binaryData"] == {"2-weights.bin": "/wA="}
    source = Source.model_validate(code.source)
    assert source.config_map is not None and source.config_map.name == body["metadata"]["name"]
    items = {item.path: item.key for item in source.config_map.items or []}
    assert items == {"pkg/__init__.py": "0-__init__.py", "pkg/model.py": "1-model.py", "weights.bin": "2-weights.bin"}


def test_the_config_map_is_immutable_and_goes_with_the_job() -> None:
    body = make_code_map("a", FILES[:2]).build("team-a", "a", "uid-1")
    owner = {"apiVersion": "railhead.dev/v1alpha1", "kind": "TrainJob", "name": "a", "uid": "uid-1"}
    assert body["metadata"]["ownerReferences"] == [owner]
    assert body["immutable"] is True
    assert "binaryData" not in body


def test_files_of_the_same_name_and_long_names_have_keys() -> None:
    long = "n" * 400
    files = [CodeFile("a/x.py", b"1"), CodeFile("b/x.py", b"2"), CodeFile(long, b"3"), CodeFile(long + "2", b"4")]
    data = make_code_map("a", files).build("n", "a", "u")["data"]
    assert sorted(data.values()) == ["1", "2", "3", "4"]
    assert max(map(len, data)) == 253


def test_the_name_depends_on_job_paths_and_content() -> None:
    name = make_code_map("a", FILES).name
    assert name.startswith("a-code-")
    assert name == make_code_map("a", list(FILES)).name
    others = [
        make_code_map("b", FILES),
        make_code_map("a", FILES[1:]),
        make_code_map("a", (*FILES[:2], CodeFile("weights.bin", b"\xff"))),
        make_code_map("a", (*FILES[:2], CodeFile("weight.bin", b"\xff\x00"))),
    ]
    assert name not in {each.name for each in others}
    assert len(make_code_map("a" * MAX_JOB_NAME, FILES).name) <= 253


def test_a_held_job_is_suspended_until_its_release() -> None:
    code = make_code_map("a", FILES)
    held = hold(JOB, code)
    assert held["spec"] == {"image": "i", "suspend": True}
    assert is_held(held) and not is_held(JOB)
    released = merge({**held, "metadata": {**held["metadata"], "uid": "uid-1"}}, build_release(JOB, "uid-1"))
    assert not is_held(released)
    assert released["spec"]["suspend"] is False
    assert released["metadata"]["annotations"] == {"mine": "1"}
    assert build_release({"spec": {"suspend": True}}, "uid-1")["spec"] == {"suspend": True}


def test_the_same_content_is_recognised_under_any_owner() -> None:
    code = make_code_map("a", FILES)
    new = code.build("n", "a", "uid-1")
    assert has_same_content(new, code.build("n", "a", "uid-2"))
    assert not has_same_content(new, {**new, "data": {**new["data"], "1-model.py": "y"}})
    assert not has_same_content(new, {**new, "immutable": False})


def test_the_difference_of_two_folders_is_named_by_file() -> None:
    old = make_code_map("a", FILES)
    changed = (CodeFile("pkg/__init__.py", b""), CodeFile("pkg/model.py", b"y"), CodeFile("train.py", b""))
    lines = compare_files(make_code_map("a", changed), old.source, old.build("n", "a", "u"))
    assert lines == ["code: pkg/model.py differs", "code: train.py is new", "code: weights.bin is missing"]
    assert compare_files(old, old.source, old.build("n", "a", "u")) == []


def test_each_file_is_listed_with_its_size() -> None:
    assert make_code_map("a", FILES).describe()[2].split() == ["2", "B", "weights.bin"]


def test_the_code_has_the_labels_that_the_job_wants_on_all_its_objects() -> None:
    wanted = {"labels": {"team": "vision"}, "annotations": {"example.com/owner": "me"}}
    job = {"metadata": {"name": "a"}, "spec": {"childMetadata": wanted}}
    metadata = make_code_map("a", FILES, read_demanded(job)).build("n", "a", "u")["metadata"]
    assert metadata.items() >= wanted.items() and metadata["ownerReferences"]
    assert read_demanded({"spec": {}}) == {}
