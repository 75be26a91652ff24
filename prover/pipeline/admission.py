"""Whether the first of those who wait for their synthesis may have memory now: its key leased, its bytes reserved.

The queue asks, so whoever is first when there is room is served, and nobody is passed over. What waits says so, as a
note of its job: for how much, and behind whom.
"""

from __future__ import annotations

import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from .budget import BudgetExceeded, MemoryBudget, Reservation, Shortage
from .demand import DEVICE_PHASE
from .kinds import KeyAwaited, Lease
from .tracker import StatusTracker

if TYPE_CHECKING:
    from .jobs import Task

#: between notes of a job that waits for memory, unless it waits behind another one
NOTE_EVERY_S: Final = 5.0
NOTE: Final = "memory"  # the note's reason, one of states.JOB_NOTES
_dropped: deque[Lease] = deque()  # by the collection of garbage, which may come at any moment


class AttemptMemory:
    """What an attempt holds until it ends; what is dropped unclosed is released at a later look."""

    def __init__(self, reservation: Reservation, lease: Lease) -> None:
        self._reservation, self._lease = reservation, lease
        weakref.finalize(self, _dropped.append, lease).atexit = False

    @property
    def nbytes(self) -> int:
        """Bytes that it holds."""
        return self._reservation.nbytes

    def device_done(self) -> None:
        """The device has worked: a, b, c and what the device phase needed are free."""
        self._reservation.release(DEVICE_PHASE)

    def close(self) -> None:
        """The attempt has ended."""
        self._reservation.close()
        self._lease.release()


class Admission:
    """Of one engine, for its queue of pending attempts. Called with the queue's lock."""

    def __init__(self, tracker: StatusTracker, budget: MemoryBudget, wake: Callable[[], object]) -> None:
        """`wake` has the queue ask again."""
        self._tracker, self._budget, self._wake = tracker, budget, wake
        self._noted: tuple[str, str | None, float] | None = None  # job, behind whom, when

    def another(self) -> Admission:
        """Of the same budget, for who waits beside the others."""
        return Admission(self._tracker, self._budget, self._wake)

    def admits(self, task: Task) -> bool:
        """Whether it may be taken: with its memory, or because it cannot have it (`task.refused`), or because its key
        is not here (`task.awaited`)."""
        try:
            lease = task.run.kind.lease(task.work)
        except KeyAwaited as awaited:
            task.awaited = awaited
            return True
        answer = self._ask(task)
        if isinstance(answer, Reservation):
            task.memory = AttemptMemory(answer, lease)
            self._note(task, None)
            return True
        lease.release()
        if isinstance(answer, BudgetExceeded):
            task.refused = answer
            return True
        self._note(task, answer)
        return False

    def nothing(self) -> None:
        """Nobody waits."""
        self._budget.give_up(self)

    def look(self) -> None:
        """To be called now and then: what was dropped is released, and what has become idle may be evicted."""
        while _dropped:
            _dropped.popleft().release()
        self._budget.look()

    def _ask(self, task: Task) -> Reservation | Shortage | BudgetExceeded:
        claim = task.run.kind.claim(task.work, f"job {task.run.info.number}", task.order)
        try:
            return self._budget.ask(self, claim, self._wake)
        except BudgetExceeded as error:
            return error

    def _note(self, task: Task, shortage: Shortage | None) -> None:
        job, now = task.run.info.id, time.monotonic()
        if shortage is None:
            if self._noted is not None and self._noted[0] == job:
                self._noted = None
                self._tracker.job_noted(job, NOTE, {"waits": None})
            return
        behind = shortage.behind
        if self._noted is None or self._noted[:2] != (job, behind) or now - self._noted[2] >= NOTE_EVERY_S:
            self._noted = job, behind, now
            self._tracker.job_noted(job, NOTE, {"waits": str(shortage)})
