"""The view: lists, the watch and late answers to own writes, in any order, end in the server's state."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from railhead.kube.bodies import keep_all
from railhead.kube.informer import View, key_of, version_of
from tests.model.api_server import ModelApiServer, Object
from tests.model.faults import NOON
from tests.unit.kube.watcher import Watcher, make_object, replace_all

NAMES = st.sampled_from(["a", "b"])
STEPS = st.one_of(
    st.tuples(st.just("write"), NAMES),
    st.tuples(st.just("delete"), NAMES),
    st.tuples(st.just("list"), st.none()),
    st.tuples(st.just("watch"), st.integers(1, 4)),
    st.tuples(st.just("answer"), st.integers(0, 30)),
)


class ChangeLog:
    """Receives the changes, and rebuilds the objects from them alone."""

    def __init__(self) -> None:
        self.calls: list[tuple[Object | None, Object | None]] = []
        self.objects: dict[tuple[str, str], Object] = {}

    def __call__(self, old: Object | None, new: Object | None) -> None:
        self.calls.append((old, new))
        some = new or old
        assert some is not None
        assert self.objects.get(key_of(some)) == old, "a change starts from the last known object"
        self.objects.pop(key_of(some), None)
        if new is not None:
            self.objects[key_of(new)] = new


def do(step: tuple[str, Any], watcher: Watcher) -> None:
    verb, value = step
    if verb == "write":
        watcher.write(value)
    elif verb == "delete":
        watcher.delete(value)
    elif verb == "list":
        watcher.list()
    elif verb == "watch":
        watcher.watch(value)
    elif watcher.answers:
        watcher.view.put(dict(watcher.answers[value % len(watcher.answers)]))


@given(st.lists(STEPS, max_size=30), st.lists(st.integers(0, 30), max_size=6), st.booleans())
def test_the_view_ends_in_the_servers_state(steps: list[tuple[str, Any]], late: list[int], ends_in_list: bool) -> None:
    """A gap in the watch leads to a list; an answer may come late, twice, or before the watch event."""
    log = ChangeLog()
    watcher = Watcher(ModelApiServer(lambda: NOON), View(log, keep_all))
    for step in steps:
        do(step, watcher)
    if ends_in_list:
        watcher.list()
    else:
        watcher.watch(len(watcher.api.log))
    for number in late:
        do(("answer", number), watcher)
    expected = {key_of(obj): obj for obj in watcher.api.objects.values()}
    assert {key_of(obj): obj for obj in watcher.view.items()} == expected
    assert log.objects == expected


@given(st.lists(STEPS, max_size=30))
def test_the_view_never_goes_back(steps: list[tuple[str, Any]]) -> None:
    """For each name, versions only increase, also from an object to its successor."""
    log = ChangeLog()
    watcher = Watcher(ModelApiServer(lambda: NOON), View(log, keep_all))
    for step in steps:
        do(step, watcher)
    for old, new in log.calls:
        assert old is None or new is None or version_of(old) < version_of(new)


def test_a_change_carries_the_old_and_the_new_object() -> None:
    log = ChangeLog()
    view = View(log, keep_all)
    first, second = make_object("a", "u", 1), make_object("a", "u", 2)
    view.put(first)
    view.put(second)
    view.put(first)
    view.drop(make_object("a", "u", 3))
    view.drop(make_object("a", "u", 3))
    assert log.calls == [(None, first), (first, second), (second, None)]


def test_a_list_removes_missing_objects_except_newer_ones() -> None:
    log = ChangeLog()
    view = View(log, keep_all)
    gone, young = make_object("gone", "u1", 3), make_object("young", "u2", 8)
    view.put(gone)
    view.put(young)
    replace_all(view, [], version=5)
    assert list(view.items()) == [young]
    assert log.calls[-1] == (gone, None)


def test_the_deletion_of_a_predecessor_leaves_its_successor() -> None:
    view = View(ChangeLog(), keep_all)
    view.put(make_object("a", "first", 1))
    view.put(make_object("a", "second", 3))
    view.drop(make_object("a", "first", 2))
    assert list(view.items()) == [make_object("a", "second", 3)]


def test_a_late_answer_about_a_predecessor_leaves_its_successor() -> None:
    """Even if the successor is known from its own answer and no deletion was reported yet."""
    view = View(ChangeLog(), keep_all)
    view.put(make_object("a", "first", 1))
    view.put(make_object("a", "second", 4))
    view.put(make_object("a", "first", 2))
    assert list(view.items()) == [make_object("a", "second", 4)]


def test_a_predecessor_stays_gone_without_a_deletion_event() -> None:
    view = View(ChangeLog(), keep_all)
    view.put(make_object("a", "first", 1))
    replace_all(view, [make_object("a", "second", 10)], version=10)
    view.drop(make_object("a", "second", 11))
    view.put(make_object("a", "first", 5))  # a late answer
    assert list(view.items()) == []


def test_a_late_answer_does_not_add_an_object_missing_from_a_newer_list() -> None:
    view = View(ChangeLog(), keep_all)
    replace_all(view, [], version=10)
    view.put(make_object("a", "short-lived", 5))
    assert list(view.items()) == []


def test_an_object_whose_labels_match_again_is_back() -> None:
    """When an object leaves a selector, the watch reports a deletion; the uid stays and the version increases."""
    view = View(ChangeLog(), keep_all)
    view.put(make_object("a", "u", 1))
    view.drop(make_object("a", "u", 2))
    view.put(make_object("a", "u", 3))
    assert list(view.items()) == [make_object("a", "u", 3)]


def test_only_the_slim_form_is_kept_and_reported() -> None:
    changes: list[tuple[str | None, str | None]] = []
    view = View(lambda old, new: changes.append((old, new)), slim=lambda obj: str(obj["metadata"]["name"]))
    view.put({**make_object("a", "u", 1), "spec": {"large": True}})
    view.drop(make_object("a", "u", 2))
    assert changes == [(None, "a"), ("a", None)]


def test_a_version_that_is_kept_already_is_not_read_again() -> None:
    read: list[int] = []

    def slim(obj: Object) -> Object:
        read.append(version_of(obj))
        return obj

    view = View(ChangeLog(), slim)
    objects = [make_object("a", "u", 3), make_object("b", "v", 4)]
    replace_all(view, objects, version=5)
    replace_all(view, [objects[0], make_object("b", "v", 7)], version=8)
    assert read == [3, 4, 7]
