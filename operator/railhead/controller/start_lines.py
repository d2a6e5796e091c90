"""The jobs of each namespace that are in its start line: what they cost is in proportion to their number only."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime

from railhead.api.job import JobKey
from railhead.controller.job_record import JobRecord
from railhead.planning.facts.start_line import find_creators, find_rivals
from railhead.planning.observed import Place


class StartLines:
    """Indexed by namespace."""

    def __init__(self) -> None:
        self._records: defaultdict[str, dict[JobKey, JobRecord]] = defaultdict(dict)

    def change(self, key: JobKey, new: JobRecord | None) -> None:
        """A job was stored, or forgotten."""
        if new is not None and new.place is not None:
            self._records[key.namespace][key] = new
        elif key in self._records.get(key.namespace, ()):
            del self._records[key.namespace][key]
            if not self._records[key.namespace]:
                del self._records[key.namespace]

    def others(self, key: JobKey) -> tuple[JobRecord, ...]:
        """Of the job's namespace, without the job itself."""
        return tuple(record for other, record in self._records.get(key.namespace, {}).items() if other != key)

    def rivals(self, record: JobRecord, now: datetime) -> list[JobRecord]:
        """See `facts/start_line.py`."""
        others, own = self.others(record.key), record.place
        if own is None:
            return list(others)
        line = (own, *(each.place for each in others if each.place is not None and each.place.quota == own.quota))
        uids = {each.uid for each in find_rivals(line, record.uid, now)}
        return [each for each in others if each.uid in uids]

    def find_creators(self, namespace: str, now: datetime) -> list[JobKey]:
        """The jobs that may create pods now, of all quotas."""
        lines: defaultdict[str, dict[Place, JobKey]] = defaultdict(dict)
        for key, record in self._records.get(namespace, {}).items():
            if record.place is not None:
                lines[record.place.quota][record.place] = key
        return [line[place] for line in lines.values() for place in find_creators(tuple(line), now)]
