"""Queues that give the most urgent first. Nothing that was put is lost: ties are broken by a number of their own."""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from .attempts import Order

T = TypeVar("T")


class PriorityQueue(Generic[T]):
    """Thread-safe; the order is `attempts.Order`, first in first out among equals."""

    def __init__(self) -> None:
        self._heap: list[tuple[Order, int, T]] = []
        self._count = itertools.count()
        self._changed = threading.Condition()
        self._closed = False

    def __len__(self) -> int:
        with self._changed:
            return len(self._heap)

    def put(self, order: Order, item: T) -> None:
        """Add an item; it is kept even when the queue is closed, for `drop` to find."""
        with self._changed:
            heapq.heappush(self._heap, (order, next(self._count), item))
            self._changed.notify_all()

    def get(self, may_take: Callable[[], bool] = lambda: True, leave: Callable[[], bool] = lambda: False) -> T | None:
        """The most urgent item, waiting for one (and for `may_take`) as long as it takes.

        None once the queue is closed, or once `leave` says so; `recheck` has both asked again.
        """
        with self._changed:
            while not self._closed and not leave():
                if self._heap and may_take():
                    return heapq.heappop(self._heap)[2]
                self._changed.wait()
            return None

    def best(self) -> Order | None:
        """The order of the most urgent item; None when empty."""
        with self._changed:
            return self._heap[0][0] if self._heap else None

    def drop(self, unwanted: Callable[[T], bool]) -> list[T]:
        """Remove and return all items that are unwanted."""
        with self._changed:
            out = [item for _, _, item in self._heap if unwanted(item)]
            self._heap = [entry for entry in self._heap if not unwanted(entry[2])]
            heapq.heapify(self._heap)
            return out

    def recheck(self) -> None:
        """Make those who wait ask `may_take` again."""
        with self._changed:
            self._changed.notify_all()

    def close(self) -> None:
        """Let everybody who waits go with None."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()


class Slots:
    """A bounded number of places; whoever waits for one can be let go."""

    def __init__(self, places: int) -> None:
        self._free = places
        self._changed = threading.Condition()
        self._closed = False

    def acquire(self) -> bool:
        """Take a place, waiting for one; False once closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._free > 0 or self._closed)
            if self._closed:
                return False
            self._free -= 1
            return True

    def wait(self) -> bool:
        """Wait until a place is free, without taking it; False once closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._free > 0 or self._closed)
            return not self._closed

    def release(self) -> None:
        """Give a place back."""
        with self._changed:
            self._free += 1
            self._changed.notify_all()

    @property
    def free(self) -> int:
        """Places that are free now."""
        with self._changed:
            return self._free

    def close(self) -> None:
        """Let everybody who waits go."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
