"""Things that are made once, however many threads ask for them at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class SingleFlight(Generic[K, V]):
    """Keeps what was made. The first who asks makes it, the others wait; after a failure the next one tries again."""

    def __init__(self) -> None:
        self._made: dict[K, Future[V]] = {}
        self._lock = threading.Lock()

    def get(self, key: K, make: Callable[[], V]) -> V:
        """What was made for `key`; what `make` raises is raised for all who wait for it."""
        with self._lock:
            future = self._made.get(key)
            mine = future is None
            if future is None:
                future = self._made[key] = Future()
        if mine:
            self._make(key, future, make)
        return future.result()

    def forget(self, key: K) -> None:
        """Have it made again when it is next asked for."""
        with self._lock:
            self._made.pop(key, None)

    def made(self, key: K) -> V | None:
        """What was made for `key`, without waiting; None when it was not, or not yet."""
        with self._lock:
            future = self._made.get(key)
        return future.result() if future is not None and future.done() and future.exception() is None else None

    def _make(self, key: K, future: Future[V], make: Callable[[], V]) -> None:
        try:
            future.set_result(make())
        except BaseException as error:
            with self._lock:
                del self._made[key]
            future.set_exception(error)


class Once(Generic[V]):
    """One thing that is made once."""

    def __init__(self) -> None:
        self._flight: SingleFlight[None, V] = SingleFlight()

    def get(self, make: Callable[[], V]) -> V:
        """What was made; what `make` raises is raised for all who wait for it, and the next one tries again."""
        return self._flight.get(None, make)

    @property
    def made(self) -> V | None:
        """What was made, without waiting; None when it was not, or not yet."""
        return self._flight.made(None)
