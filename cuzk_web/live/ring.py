"""The newest rows of each session, kept in memory so that a viewer who fell behind need not ask the database."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from .rows import Row

CAPACITY: Final = 20_000  # rows a session


class Ring:
    """By session, a run of rows without a gap: `rows[i].seq == rows[0].seq + i`."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._sessions: dict[str, list[Row]] = {}

    def append(self, rows: Iterable[Row]) -> None:
        """Take new rows; of each session they follow those that it has. The oldest go when there are too many."""
        for row in rows:
            self._sessions.setdefault(row.session, []).append(row)
        for kept in self._sessions.values():
            # in blocks, so that a full ring does not move all its rows at each tick
            if len(kept) > self._capacity + self._capacity // 4:
                del kept[: len(kept) - self._capacity]

    def covers(self, session: str, seq: int) -> bool:
        """Whether every row after `seq` that was ever appended is still here; no if none ever was."""
        kept = self._sessions.get(session)
        return bool(kept) and kept is not None and kept[0].seq <= seq + 1

    def after(self, cursor: Mapping[str, int], limit: int) -> list[Row]:
        """At most `limit` rows that follow the cursor. All sessions of the cursor are covered."""
        rows: list[Row] = []
        for session, seq in cursor.items():
            kept = self._sessions[session]
            start = seq + 1 - kept[0].seq
            rows += kept[start : start + limit - len(rows)]
        return rows

    def forget(self, keep: Iterable[str]) -> None:
        """Drop the sessions that are not in `keep`."""
        for session in self._sessions.keys() - set(keep):
            del self._sessions[session]

    def clear(self) -> None:
        """Drop everything."""
        self._sessions.clear()
