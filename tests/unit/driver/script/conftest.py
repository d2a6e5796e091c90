"""The environment of a script."""

from __future__ import annotations

from pathlib import Path

import pytest

from railhead.contract import environment as e
from railhead.contract.job_input import FILE
from railhead.driver.reporting.mailbox import Mailbox
from railhead.driver.run_context import STORAGE_PATH
from tests.ray.pods import make_job
from tests.unit.driver.mailboxes import tell


@pytest.fixture
def in_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mailbox:
    """The environment of a script; the driver has already recorded every fit()."""
    (tmp_path / FILE).write_text(make_job(train_func="", entrypoint=["python"], run_name="the-run").to_json())
    values = {e.INPUT: tmp_path, e.TEMP: tmp_path, e.BUNDLE: "x", e.POD_IP: "x", e.HEAD_HOST: "x", e.HEAD_PORT: 1}
    for name, value in {**values, e.STORAGE: tmp_path, STORAGE_PATH: tmp_path}.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.setenv("RAILHEAD_RUN", "")
    mailbox = Mailbox(tmp_path)
    tell(mailbox.driver, read_fits=9)
    return mailbox
