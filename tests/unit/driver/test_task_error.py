"""An error of a Ray Data task becomes one sentence with the user's own message."""

from __future__ import annotations

import pytest

from railhead.driver.task_error import describe_task_error, is_task_error

# As Ray 2.60 writes them, with the middle of long tracebacks left out.
RAISED_IN_MAP = """\x1b[36mray::SplitCoordinator.get()\x1b[39m (pid=27922, ip=10.0.0.2, repr=<ray.data.X>)
  File "/site-packages/ray/data/dataset.py", line 8952, in get_next
    bundle = self._base_iterator.get_next(output_split_idx)
             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
ray.exceptions.RayTaskError(UserCodeException): ray::ReadRange->MapBatches(check)() (pid=27972, ip=10.0.0.3)
  File "/etc/railhead/source/user.py", line 7, in check
    raise Odd("thirty", "very")
user.Odd: thirty is odd,
and it says so in two lines

The above exception was the direct cause of the following exception:

\x1b[36mray::ReadRange->MapBatches(check)()\x1b[39m (pid=27972, ip=10.0.0.3)
ray.exceptions.UserCodeException: UDF failed to process a data block.
Failed to apply UDF transform after 1/1 attempts (total backoff 0.0s).
To change retry attempts, backoff, or which errors are retried, configure `ray.data.DataContext.get_current()`."""
CORRUPT_FILE = """\x1b[36mray::ReadImage->SplitBlocks(4)()\x1b[39m (pid=26814, ip=10.0.0.3)
  File "/site-packages/PIL/Image.py", line 3580, in open
    raise UnidentifiedImageError(msg)
PIL.UnidentifiedImageError: cannot identify image file <_io.BytesIO object at 0x7f>

The above exception was the direct cause of the following exception:

\x1b[36mray::ReadImage->SplitBlocks(4)()\x1b[39m (pid=26814, ip=10.0.0.3)
    for block in block_iter:
  File "/site-packages/ray/data/_internal/datasource/image_datasource.py", line 82, in _read_stream
    raise ValueError(f"PIL couldn't load image file at path '{path}'.") from e
ValueError: PIL couldn't load image file at path '/data/bad.png'.
Failed to read stream iteratively after 1/10 attempts (total backoff 0.0s).
To change retry attempts, backoff, or which errors are retried, configure `ray.data.DataContext.get_current()`."""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            RAISED_IN_MAP,
            "user.Odd: thirty is odd, and it says so in two lines "
            "(user.py, line 7, in check; task ReadRange->MapBatches(check))",
        ),
        (
            CORRUPT_FILE,
            "ValueError: PIL couldn't load image file at path '/data/bad.png'. "
            "(image_datasource.py, line 82, in _read_stream; task ReadImage->SplitBlocks(4))",
        ),
        ("some other text", "some other text"),
        ("", ""),
    ],
    ids=["map function", "corrupt file", "not a traceback", "nothing"],
)
def test_reports_the_cause_without_rays_traceback(text: str, message: str) -> None:
    assert describe_task_error(text) == message


def test_recognizes_a_task_error_by_rays_class() -> None:
    kind = type("RayTaskError(ValueError)", (type("RayTaskError", (Exception,), {}), ValueError), {})
    assert is_task_error(kind("x"))
    assert not is_task_error(ValueError("x"))
