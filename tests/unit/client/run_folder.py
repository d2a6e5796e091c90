"""A run's folder, as the pods of the job digits have left it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from railhead.contract.history_format import Header, write_line

UID = "uid-digits"
HOSTILE = "line\x1b[2J\x1b]0;owned\x07"


def write_segment(run: Path, kind: str, *records: dict[str, Any]) -> None:
    path = run / ".railhead" / kind / "1-ab-1.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [write_line({"time": "2026-11-25T10:00:01.000Z", "attempt": 1, **each}) for each in records]
    path.write_bytes(b"".join([Header(kind, UID).to_line(), *lines]))


def write_log(run: Path, name: str, text: str) -> None:
    path = run / ".railhead" / "logs" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()))


def write_run(run: Path) -> None:
    """Writes eight reports, two checkpoints of which the second is lost, and two archived logs."""
    reports = [{"report": n, "step": n, "metrics": {"loss": 1 / n, HOSTILE: n}} for n in range(1, 9)]
    write_segment(run, "metrics", *reports)
    write_segment(run, "journal", {"event": "checkpoint", "index": 0, "checkpoint": "s3://b/r/checkpoint_1"})
    entries = [{"checkpoint_dir_name": f"checkpoint_{n}", "metrics": reports[n]["metrics"]} for n in (1, 2)]
    snapshot = {"checkpoint_results": entries, "latest_checkpoint_result": entries[1]}
    (run / "checkpoint_manager_snapshot.json").write_text(json.dumps(snapshot))
    (run / "checkpoint_1").mkdir()
    (run / "checkpoint_1" / "model.pt").write_bytes(b"weights")
    for rank in (0, 1):
        stamp = "2026-11-25T10:00:00Z"
        write_log(run, f"uid-digi-1/{rank}/r0-w{rank}-000000.log.gz", f"{stamp} one of {rank}\n{stamp} {HOSTILE}\n")
    # The uid is cut to letters and digits, then to eight.
    (run / ".railhead" / "logs" / "uid-digi-1").rename(run / ".railhead" / "logs" / "uiddigit-1")
