"""Calls that are made after a pause."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Later:
    """Makes calls later, each in a thread of its own; none once it is closed. Thread-safe."""

    def __init__(self) -> None:
        self._waiting: set[threading.Timer] = set()
        self._closed = False
        self._lock = threading.Lock()

    def call(self, pause_s: float, call: Callable[[], object]) -> None:
        """Make `call` in `pause_s` seconds; at once, and here, when that is 0."""
        if pause_s <= 0:
            call()
            return
        with self._lock:
            if self._closed:
                return
            timer = threading.Timer(pause_s, lambda: self._fire(timer, call))
            timer.daemon = True
            self._waiting.add(timer)
            timer.start()

    def close(self) -> None:
        """Make no call any more."""
        with self._lock:
            self._closed = True
            for timer in self._waiting:
                timer.cancel()
            self._waiting.clear()

    def _fire(self, timer: threading.Timer, call: Callable[[], object]) -> None:
        with self._lock:
            self._waiting.discard(timer)
            if self._closed:
                return
        call()
