"""The session's clocks: the database's wall time, as well as it is known, and the machine's monotonic time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class Clock:
    """Wall time in microseconds since 1970 by the database's clock, strictly increasing; and monotonic nanoseconds.

    Wall time runs on the monotonic clock from where it was when the object was made, plus an offset that the journal
    learns from the database. It never goes back: a smaller offset only makes it advance by single microseconds for a
    while. `advance_to` makes all later stamps later than something that was seen (a job's last transition, say), so
    that cause precedes effect even where the clocks of two hosts disagree.
    """

    def __init__(
        self, wall_ns: Callable[[], int] = time.time_ns, mono_ns: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._mono_ns = mono_ns
        self._base_us = (wall_ns() - mono_ns()) // 1000
        self._offset_us = 0
        self._last_us = 0
        self._lock = threading.Lock()

    def mono_ns(self) -> int:
        """Monotonic nanoseconds."""
        return self._mono_ns()

    def now_us(self) -> int:
        """A new stamp: the database's time, later than every stamp before."""
        with self._lock:
            self._last_us = max(self._now(), self._last_us + 1)
            return self._last_us

    def read_us(self) -> int:
        """The database's time, for reading only: no stamp is taken."""
        return max(self._now(), self._last_us)

    def set_database_time(self, database_us: int, mono_ns: int) -> None:
        """Learn that the database's clock read `database_us` when the monotonic clock read `mono_ns`."""
        self._offset_us = database_us - mono_ns // 1000 - self._base_us

    def advance_to(self, seen_us: int) -> None:
        """Stamp nothing at or before `seen_us` from now on."""
        with self._lock:
            self._last_us = max(self._last_us, seen_us)

    def _now(self) -> int:
        return self._base_us + self._offset_us + self._mono_ns() // 1000
