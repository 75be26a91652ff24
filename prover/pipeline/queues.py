"""Queues that give the most urgent first. Nothing that was put is lost: ties are broken by a number of their own."""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from .attempts import Order

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)


class Gate(Protocol[T_contra]):
    """What the first item has to pass. Called with the queue's lock."""

    def admits(self, item: T_contra) -> bool:
        """Whether it may be taken now; then it is."""

    def nothing(self) -> object:
        """Nobody waits, or nobody takes any more."""


@dataclass(eq=False, slots=True)
class _Entry(Generic[T]):
    """An item's place; the ticket keeps equals first in first out, also when they are put into order anew."""

    order: Order
    ticket: int
    item: T
    stays: bool = True  # False: it was taken out, or has another entry; the heap is rid of it later

    def __lt__(self, other: _Entry[T]) -> bool:
        return (self.order, self.ticket) < (other.order, other.ticket)


class PriorityQueue(Generic[T]):
    """Thread-safe; the order is `attempts.Order`, first in first out among equals.

    What is done to one job's items costs by their number, not by the queue's: they are found by the job, and what is
    taken out of the middle stays in the heap as a mark until it comes up, or until there are more marks than items.
    """

    def __init__(self) -> None:
        self._heap: list[_Entry[T]] = []
        self._entries: dict[str, dict[int, _Entry[T]]] = {}  # job -> ticket -> entry
        self._size = 0
        self._tickets = itertools.count()
        self._changed = threading.Condition()
        self._closed = False

    def __len__(self) -> int:
        with self._changed:
            return self._size

    def put(self, order: Order, item: T) -> None:
        """Add an item; it is kept even when the queue is closed, for `drop` to find."""
        with self._changed:
            self._push(_Entry(order, next(self._tickets), item))
            self._changed.notify_all()

    def get(
        self, may_take: Callable[[T], bool] = lambda item: True, leave: Callable[[], bool] = lambda: False,
        suits: Callable[[T], bool] = lambda item: True, gate: Gate[T] | None = None,
    ) -> T | None:  # fmt: skip
        """The most urgent item that `suits`, waiting for one (and for `may_take`, and the gate) as long as it takes.

        None once the queue is closed, or once `leave` says so; `recheck` has all of them asked again.
        """
        with self._changed:
            while not self._closed and not leave():
                entry = self._best(suits)
                if entry is not None and may_take(entry.item) and (gate is None or gate.admits(entry.item)):
                    self._remove(entry)
                    return entry.item
                if gate is not None and not self._size:
                    gate.nothing()
                self._changed.wait()
            if gate is not None:
                gate.nothing()
            return None

    def has(self, job: str) -> bool:
        """Whether there are items of a job."""
        with self._changed:
            return job in self._entries

    def best(self) -> Order | None:
        """The order of the most urgent item; None when empty."""
        with self._changed:
            return self._first().order if self._size else None

    def drop(self, job: str, unwanted: Callable[[T], bool]) -> list[T]:
        """Remove and return all items of a job that are unwanted, in the order in which they came."""
        with self._changed:
            found = [entry for entry in self._entries.get(job, {}).values() if unwanted(entry.item)]
            for entry in found:
                self._remove(entry)
            self._tidy()
            self._changed.notify_all()  # the first one may be another now
            return [entry.item for entry in found]

    def reorder(self, job: str, order: Callable[[T], Order]) -> None:
        """Give all items of a job the places that they have now."""
        with self._changed:
            for entry in list(self._entries.get(job, {}).values()):
                self._remove(entry)
                self._push(_Entry(order(entry.item), entry.ticket, entry.item))
            self._tidy()
            self._changed.notify_all()

    def recheck(self) -> None:
        """Make those who wait ask `may_take` again."""
        with self._changed:
            self._changed.notify_all()

    def close(self) -> None:
        """Let everybody who waits go with None."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    # -- with the lock ----------------------------------------------------------------------------------------------

    def _push(self, entry: _Entry[T]) -> None:
        heapq.heappush(self._heap, entry)
        self._entries.setdefault(entry.order.job, {})[entry.ticket] = entry
        self._size += 1

    def _first(self) -> _Entry[T]:
        while not self._heap[0].stays:
            heapq.heappop(self._heap)
        return self._heap[0]

    def _best(self, suits: Callable[[T], bool]) -> _Entry[T] | None:
        if not self._size or suits(self._first().item):
            return self._first() if self._size else None
        return min((entry for entry in self._heap if entry.stays and suits(entry.item)), default=None)

    def _remove(self, entry: _Entry[T]) -> None:
        entry.stays = False
        of_job = self._entries[entry.order.job]
        del of_job[entry.ticket]
        if not of_job:
            del self._entries[entry.order.job]
        self._size -= 1

    def _tidy(self) -> None:
        """Marks may be as many as items, so that the heap's size, and an operation's share of this, stay bounded."""
        if len(self._heap) > 2 * self._size + 16:
            self._heap = [entry for entry in self._heap if entry.stays]
            heapq.heapify(self._heap)


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

    def take(self) -> None:
        """Take a place whether or not one is free: for what waits for nobody."""
        with self._changed:
            self._free -= 1

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
