"""Label selectors select what the API server selects, and other texts are rejected."""

from __future__ import annotations

import pytest

from railhead.kube.selector import EVERYTHING, BadSelector, parse_selector

NONE: dict[str, str] = {}
A, B = {"team": "a"}, {"team": "b", "tier": "test"}


@pytest.mark.parametrize(
    ("text", "selected"),
    [
        ("", [NONE, A, B]),
        ("  ", [NONE, A, B]),
        ("team", [A, B]),
        ("!team", [NONE]),
        ("! team", [NONE]),
        ("team=a", [A]),
        ("team == a", [A]),
        ("team!=a", [NONE, B]),
        ("team=", []),
        ("team in (a,b)", [A, B]),
        ("team in (b)", [B]),
        ("team notin (b, c)", [NONE, A]),
        ("team in (a, b),tier=test", [B]),
        ("team,!tier", [A]),
        ("example.com/team=a", []),
    ],
)
def test_what_a_selector_selects(text: str, selected: list[dict[str, str]]) -> None:
    selector = parse_selector(text)
    assert [labels for labels in (NONE, A, B) if selector.matches(labels)] == selected
    assert selector.text == text.strip()


def test_an_empty_value_is_not_a_missing_label() -> None:
    assert parse_selector("team=").matches({"team": ""})
    assert parse_selector("team in (,a)").matches({"team": ""})


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("team=a,", ""),
        ("team in a", "team in a"),
        ("team in (a", "team in (a"),
        ("=a", "=a"),
        ("team>3", "team>3"),
        ("team=a b", "team=a b"),
        ("-team", "-team"),
        (f"team={'a' * 64}", f"team={'a' * 64}"),
    ],
)
def test_another_text_is_rejected_naming_the_term(text: str, term: str) -> None:
    with pytest.raises(BadSelector) as caught:
        parse_selector(text)
    assert str(caught.value).startswith(f"{term!r} is not a requirement on a label")


def test_no_selector_is_the_default() -> None:
    assert parse_selector("") == EVERYTHING
