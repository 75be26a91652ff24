"""Who of the workers waits and who works, so that an idle device gets work before a busy one gets more."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable

from .allocator import WorkerSlot
from .tracker import StatusTracker


class Crew:
    """All workers that take from one queue. Thread-safe; it never calls back into the queue."""

    def __init__(self, tracker: StatusTracker) -> None:
        self._tracker = tracker
        self._lock = threading.Lock()
        self._waiting: dict[str, WorkerSlot] = {}
        self._working: dict[str, WorkerSlot] = {}

    def may_take(self, worker: WorkerSlot, suits: Callable[[str], bool] = lambda other: True) -> bool:
        """Whether `worker`, which waits, shall take the next task now; then it counts as working until `done`.

        `suits` says who else may take that task.
        """
        with self._lock:
            self._waiting[worker.id] = worker
            if not self._tracker.may_claim(worker.id) or self._another_is_freer(worker, suits):
                return False
            self._working[worker.id] = self._waiting.pop(worker.id)
            return True

    def done(self, worker: WorkerSlot) -> None:
        """It works no more."""
        with self._lock:
            self._working.pop(worker.id, None)

    def leave(self, worker: WorkerSlot) -> None:
        """It waits no more."""
        with self._lock:
            self._waiting.pop(worker.id, None)

    def _another_is_freer(self, worker: WorkerSlot, suits: Callable[[str], bool]) -> bool:
        load = Counter(busy.device.id for busy in self._working.values())
        mine = load[worker.device.id]
        return any(
            load[other.device.id] < mine and self._tracker.may_claim(other.id) and suits(other.id)
            for other in self._waiting.values()
        )
