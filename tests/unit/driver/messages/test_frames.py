"""The line of the user's code is named, not that of a library below it."""

from __future__ import annotations

import json
import threading
import traceback
from traceback import FrameSummary

import pytest

from railhead.driver.messages.frames import choose_frame, find_package
from railhead.driver.rank import watched_uploads


@pytest.mark.parametrize(
    ("file", "package"),
    [
        ("/x/lib/python3.11/site-packages/torch/nn/modules/linear.py", "torch"),
        ("/x/dist-packages/six.py", "six"),
        ("/var/lib/railhead.pyz/railhead/driver/rank/run.py", "railhead"),
        (watched_uploads.__file__, "railhead"),
        (threading.__file__, "threading"),
        ("<frozen importlib>", "<frozen importlib>"),
        ("/code/train.py", None),
        ("/code/railhead/train.py", None),
    ],
)
def test_each_file_has_its_package(file: str, package: str | None) -> None:
    assert find_package(file) == package


def test_an_error_in_a_library_is_placed_in_the_users_code() -> None:
    with pytest.raises(json.JSONDecodeError) as caught:
        json.loads("no json")
    assert (
        choose_frame(traceback.extract_tb(caught.value.__traceback__)).name
        == "test_an_error_in_a_library_is_placed_in_the_users_code"
    )


def test_without_code_of_the_user_it_is_the_innermost_frame() -> None:
    frames = [
        FrameSummary("/x/site-packages/ray/a.py", 1, "one"),
        FrameSummary("/x/site-packages/torch/b.py", 2, "two"),
    ]
    assert choose_frame(frames) is frames[1]
