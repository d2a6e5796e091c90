"""Names are deterministic, valid where they are used, and unique."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from railhead.api import names
from railhead.contract.digest import CHARS

LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
jobs = st.from_regex(rf"[a-z]([-a-z0-9]{{0,{names.MAX_JOB_NAME - 2}}}[a-z0-9])?", fullmatch=True)
uids = st.uuids().map(str)
MOST = 2**31 - 1  # of the status
attempts = st.integers(1, MOST) | st.just(MOST)
slots = st.integers(0, 4095)
rounds = st.integers(0, MOST) | st.just(MOST)


@given(jobs, uids, attempts, slots, rounds)
def test_every_name_is_a_dns_label(job: str, uid: str, attempt: int, slot: int, round_: int) -> None:
    all_names = [
        names.HEADS_SERVICE,
        names.head_name(job, uid, attempt),
        names.worker_name(job, uid, attempt=attempt, slot=slot, round_=round_),
    ]
    assert all(LABEL.fullmatch(name) and len(name) <= 63 for name in all_names)
    mounted = [names.secret_name(job, uid, "a" * CHARS), names.input_name(job, uid, "a" * CHARS)]
    assert all(LABEL.fullmatch(name) and len(name) <= 253 for name in mounted)
    assert len({*all_names, *mounted}) == len(all_names) + 2


def test_the_longest_names_are_labels_too() -> None:
    job, uid = "j" * names.MAX_JOB_NAME, "0f1e2d3c-1111-2222-3333-444444444444"
    longest = names.worker_name(job, uid, attempt=MOST, slot=4095, round_=MOST)
    assert longest == f"{'j' * 28}-0f1e2d-{MOST}-w4095-{MOST}" and len(longest) == 63
    assert len(names.head_name(job, uid, MOST)) <= 63


@given(jobs, uids, attempts, slots, rounds, attempts, slots, rounds)
def test_worker_pods_share_a_name_only_if_they_are_the_same(
    job: str, uid: str, a1: int, s1: int, r1: int, a2: int, s2: int, r2: int
) -> None:
    one = names.worker_name(job, uid, attempt=a1, slot=s1, round_=r1)
    other = names.worker_name(job, uid, attempt=a2, slot=s2, round_=r2)
    assert (one == other) == ((a1, s1, r1) == (a2, s2, r2))


@given(uids, attempts)
def test_consecutive_attempts_have_different_ports(uid: str, attempt: int) -> None:
    """On one machine the old head may still listen when the new one starts."""
    assert 20000 <= names.head_port(uid, attempt) < 30000
    assert names.head_port(uid, attempt) != names.head_port(uid, attempt + 1)


def test_a_new_job_with_an_old_jobs_name_has_another_run_name() -> None:
    first, second = "0f1e2d3c-1111-2222-3333-444444444444", "5a6b7c8d-1111-2222-3333-444444444444"
    assert names.run_name("digits", first, None) == "digits-0f1e2d3c"
    assert names.run_name("digits", first, None) != names.run_name("digits", second, None)
    assert names.run_name("digits", first, "fixed") == names.run_name("digits", second, "fixed") == "fixed"


def test_children_carry_the_full_identity_of_their_job() -> None:
    labels = names.child_labels("digits", "0f1e2d3c-1111-2222-3333-444444444444")
    assert labels[names.LABEL_JOB_NAME] == "digits"
    assert labels[names.LABEL_JOB_UID] == "0f1e2d3c-1111-2222-3333-444444444444"
    assert labels["app.kubernetes.io/managed-by"] == "railhead"
