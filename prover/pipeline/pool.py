"""Threads for what need not be done once a session is over."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor


class Pool:
    """A pool that may be closed at any moment, also by others than those who use it: what comes later is dropped.

    Whoever closes it has seen to what is open: it is finished, given back, or its session is lost.
    """

    def __init__(self, threads: int, name: str) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._lock = threading.Lock()
        self._closed = False

    def submit(self, call: Callable[[], object]) -> bool:
        """Have a call made in the background; whether it will be."""
        with self._lock:
            if not self._closed:
                self._threads.submit(call)
            return not self._closed

    def finish(self) -> None:
        """Take nothing more and wait for what was taken."""
        self._close()
        self._threads.shutdown(wait=True)

    def abandon(self) -> None:
        """Take nothing more, drop what has not begun, and wait for nothing."""
        self._close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _close(self) -> None:
        with self._lock:
            self._closed = True
