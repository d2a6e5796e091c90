"""Passes the latest state from Ray Train's controller to the driver process, in a file.

Both run in the head pod. The file is replaced atomically, so a reader never sees half of it;
a datagram on a local socket signals a change. Nothing here blocks: if the datagram is
lost, the next one has the same effect.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Optional

from railhead.contract.failure import RESTART, Failure, FailureClass, find_rule, read_rules
from railhead.contract.report import MAX_LOST_PODS, RestartInPlace, RunWarning
from railhead.driver.reporting.heartbeat import Heartbeat

RUNNING, FINISHED, FAILED = "running", "finished", "failed"  # states of a fit()


@dataclass(frozen=True)
class Fit:
    """One call of fit() in the user's script, numbered from 1; a failed one has a failure."""

    number: int
    state: str
    failure: Optional[Failure] = None


@dataclass(frozen=True)
class Hang:
    """A hang as the driver has found it.

    Attributes:
        rank: the one that is elsewhere than all others, which wait for it; -1 without such a one.
        is_of_steps: no rank made a step (spec.hangPolicy); else none reported (spec.progressDeadlineSeconds).
    """

    message: str
    rank: int = -1
    is_of_steps: bool = False


class Spool:
    """One head pod's spool, by its folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._socket = folder / "spool.sock"

    def write(self, state: dict[str, Any]) -> None:
        self._replace("progress.json", state)
        self.wake()

    def read(self) -> dict[str, Any]:
        return self._read("progress.json") or {}

    def write_failure(self, failure: Failure) -> None:
        self._replace("failure.json", asdict(failure))

    def read_failure(self) -> Optional[Failure]:
        return _parse_failure(self._read("failure.json"))

    def write_lost_pods(self, names: tuple[str, ...]) -> None:
        """Of the last failure; earlier ones are replaced by now, or Kubernetes finds them, and those past the bound."""
        self._replace("lost_pods.json", {"names": names[:MAX_LOST_PODS]})
        self.wake()

    def read_lost_pods(self) -> tuple[str, ...]:
        values = self._read("lost_pods.json")
        return tuple(values["names"]) if values else ()

    def write_warning(self, warning: RunWarning) -> None:
        """Of something that passes; it hides that of the run until `forget_warning`."""
        self._replace("warning.json", asdict(warning))
        self.wake()

    def forget_warning(self, *reasons: str) -> None:
        """Only one with such a reason, if any are named."""
        warning = self.read_warning()
        if warning is not None and (not reasons or warning.reason in reasons):
            (self._folder / "warning.json").unlink(missing_ok=True)
            self.wake()

    def read_warning(self) -> Optional[RunWarning]:
        values = self._read("warning.json")
        return RunWarning(**values) if values else None

    def write_returned(self, ranks: int) -> None:
        """The function returned on every one of the group's ranks."""
        self._replace("returned.json", {"ranks": ranks})

    def forget_returned(self) -> None:
        (self._folder / "returned.json").unlink(missing_ok=True)

    def have_all_returned(self) -> bool:
        return self._read("returned.json") is not None

    def begin_fit(self, fit: Fit) -> None:
        """Removes the failure or success of an earlier fit(), which is not this one's."""
        (self._folder / "failure.json").unlink(missing_ok=True)
        self.forget_returned()
        self.write_fit(fit)

    def write_fit(self, fit: Fit) -> None:
        self._replace("fit.json", asdict(fit))

    def read_fit(self) -> Optional[Fit]:
        values = self._read("fit.json")
        if values is None:
            return None
        failure = values.pop("failure")
        return Fit(**values, failure=_parse_failure(failure))

    def write_heard(self, number: int) -> None:
        """The output of this fit() has been read to the end."""
        self._replace("heard.json", {"number": number})

    def read_heard(self) -> int:
        return int((self._read("heard.json") or {}).get("number", 0))

    def write_restart(self, restart: RestartInPlace) -> None:
        """The last one of this attempt; in a script also of an earlier fit()."""
        self._replace("restart.json", asdict(restart))
        self.wake()

    def read_restart(self) -> Optional[RestartInPlace]:
        values = self._read("restart.json")
        return RestartInPlace(**values) if values else None

    def write_allowed_restarts(self, number: int, rules: list[dict[str, Any]]) -> None:
        """How many charged restarts in place this attempt may have in all, and the rules of its failure policy."""
        self._replace("allowed-restarts.json", {"number": number, "rules": rules})

    def read_allowed_restarts(self, failure: Failure) -> Optional[int]:
        """0 after a failure that ends the attempt by a rule. None until the operator has answered a report."""
        values = self._read("allowed-restarts.json")
        if values is None:
            return None
        rules = read_rules(values["rules"])
        number = find_rule(rules, failure.class_.value, failure.reason, failure.process_exit_code)
        is_ended = number is not None and rules[number].action != RESTART
        return 0 if is_ended else int(values["number"])

    def write_deadline(self, seconds: Optional[float], *, hang_policy: str = "") -> None:
        """The current spec.progressDeadlineSeconds and spec.hangPolicy."""
        self._replace("deadline.json", {"seconds": seconds, "hang_policy": hang_policy})

    def read_deadline(self, default: Optional[float]) -> Optional[float]:
        values = self._read("deadline.json")
        return default if values is None else values.get("seconds")

    def read_hang_policy(self) -> str:
        """Empty until the operator has answered."""
        return str((self._read("deadline.json") or {}).get("hang_policy", ""))

    def write_heartbeat(self, beat: Heartbeat) -> None:
        self._replace("heartbeat.json", asdict(beat))

    def forget_heartbeat(self) -> None:
        (self._folder / "heartbeat.json").unlink(missing_ok=True)

    def read_heartbeat(self) -> Optional[Heartbeat]:
        values = self._read("heartbeat.json")
        return Heartbeat.from_dict(values) if values else None

    def write_end(self, deadline: float) -> None:
        """The driver has received SIGTERM: the run ends by then, in seconds of the epoch."""
        self._replace("end.json", {"deadline": deadline})

    def read_end(self) -> Optional[float]:
        values = self._read("end.json")
        return None if values is None else float(values["deadline"])

    def ask_for_stacks(self) -> None:
        """The controller writes them at its next poll of the workers."""
        (self._folder / "stacks.json").unlink(missing_ok=True)
        self._replace("stacks-wanted.json", {})

    def take_request_for_stacks(self) -> bool:
        wanted = self._folder / "stacks-wanted.json"
        if not wanted.exists():
            return False
        wanted.unlink(missing_ok=True)
        return True

    def write_stacks(self, stacks: list[dict[str, Any]]) -> None:
        self._replace("stacks.json", {"ranks": stacks})

    def read_stacks(self) -> Optional[list[dict[str, Any]]]:
        values = self._read("stacks.json")
        return None if values is None else list(values["ranks"])

    def write_hang(self, hang: Hang) -> None:
        """The controller takes it at its next poll of the workers."""
        self._replace("hang.json", asdict(hang))

    def has_hang(self) -> bool:
        return self._read("hang.json") is not None

    def take_hang(self) -> Optional[Hang]:
        """Once; None without one."""
        values = self._read("hang.json")
        (self._folder / "hang.json").unlink(missing_ok=True)
        return Hang(**values) if values else None

    def open_socket(self) -> socket.socket:
        """The reader's end."""
        self._socket.unlink(missing_ok=True)
        receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        receiver.bind(str(self._socket))
        return receiver

    def wake(self) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            with contextlib.suppress(OSError):
                sender.sendto(b"1", str(self._socket))

    def _replace(self, name: str, values: dict[str, Any]) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        temporary = self._folder / f"{name}.{os.getpid()}"
        temporary.write_text(json.dumps(values))
        os.replace(temporary, self._folder / name)

    def _read(self, name: str) -> Optional[dict[str, Any]]:
        try:
            values = json.loads((self._folder / name).read_text())
        except (OSError, ValueError):
            return None
        return values if isinstance(values, dict) else None


def _parse_failure(values: Optional[dict[str, Any]]) -> Optional[Failure]:
    if not values:
        return None
    return Failure(**{**values, "class_": FailureClass(values["class_"])})
