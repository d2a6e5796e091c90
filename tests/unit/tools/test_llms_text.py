"""What llms.txt says of a page, and where the links of a plain page lead."""

from __future__ import annotations

import pytest
from tools.llms_text import build_list, make_plain, read_summary


@pytest.mark.parametrize(
    ("page", "summary"),
    [
        ("# A\n\nIt [reads](x.md) jobs\nof a namespace. More.\n", "It reads jobs of a namespace."),
        ("# A\n\n<!-- Written by hand. -->\n\nTwo ways: `a` and b.\n", "Two ways"),
        ("# A\n\n## B\n\nText.\n", ""),
        ("# A\n\n```sh\nx\n\ny\n```\n\nText.\n", "Text."),
    ],
)
def test_a_page_is_described_by_its_first_sentence(page: str, summary: str) -> None:
    assert read_summary(page) == summary


def test_the_sections_are_those_of_the_navigation() -> None:
    text = build_list("Railhead", "Training.", [{"Home": "index.md"}, {"Guides": [{"Logs": "how-to/read-logs.md"}]}])
    assert text.startswith("# Railhead\n\n> Training.\n\n## Home\n\n- [Home](source/docs/index.md.txt)")
    assert "\n## Guides\n\n- [Logs](source/docs/how-to/read-logs.md.txt): " in text


def test_links_lead_to_other_copies() -> None:
    page = "[a](../index.md#x) [b](../../Makefile) [c](https://e.example/a) [d](../../charts) [e](../assets/demo.svg)"
    assert make_plain(page, "how-to/code.md") == (
        "[a](../index.md.txt#x) [b](../../Makefile.txt) [c](https://e.example/a) d [e](../../../assets/demo.svg)"
    )
