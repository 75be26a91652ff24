"""Ageing: a priority that has had no turn for a while gets one, so that it is never starved for ever.

When no job of a priority (or of a lower one) was taken for the interval, the oldest one that has waited as long counts
as high from then on, first of them: never as critical. One a prover and interval: a long queue of low jobs does not
overtake what is due soon.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

#: those that can starve: normal, low
AGEING: Final = (2, 1)


class Turns:
    """When each priority had its last turn. For one thread."""

    def __init__(self, interval_s: float, now: Callable[[], float] = time.monotonic) -> None:
        """`interval_s` 0: nobody ages."""
        self.interval_s = interval_s
        self._now = now
        self._last = dict.fromkeys(AGEING, now())

    def due(self) -> int | None:
        """The priority that must have a turn now, if any: a job of it, or of a lower one."""
        if not self.interval_s:
            return None
        return next((p for p in AGEING if self._now() - self._last[p] >= self.interval_s), None)

    def had(self, priority: int) -> None:
        """A job of this priority was taken."""
        for each in AGEING:
            if each >= priority:
                self._last[each] = self._now()
