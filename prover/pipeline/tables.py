"""A key's tables, made in the background once the key is in use, unless they were found on disk.

The thread has the lowest priority and yields to everything that proves; each section of the key is faster as soon as
its tables are there. They show as a holding of their own: loading with its progress, ready with the bytes of the key's
bases and tables and the seconds that making them took.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable

import structlog

from ..errors import describe
from ..groth16.prover import ProvingKey
from ..states import Holding, JsonObject
from .kinds import Report

log = structlog.get_logger(__name__)
THREAD_NAME = "tables"
_LOWEST_PRIORITY = 19
_LEAST_PROGRESS = 0.01


class _Ending(Exception):
    """The process ends, or the tables are not wanted any more."""


class Tabulation:
    """The making of the tables that `table_bytes` of memory hold, seen as the holding `name`. It begins at once."""

    def __init__(self, key: ProvingKey, table_bytes: int, name: str, detail: JsonObject, report: Report) -> None:
        self._name, self._detail, self._report = name, detail, report
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(key, table_bytes), name=THREAD_NAME)
        self._thread.start()

    @property
    def running(self) -> bool:
        """Whether it still uses the key."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """Go on no further than the piece that is being made."""
        self._stopped.set()

    def join(self, timeout: float | None = None) -> None:
        """Wait for its end."""
        self._thread.join(timeout)

    def _run(self, key: ProvingKey, table_bytes: int) -> None:
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LOWEST_PRIORITY)
        began = time.monotonic()
        try:
            key.tabulate(table_bytes, self._progress())
        except _Ending:
            return
        except Exception as error:
            code, text = describe(error)
            log.warning("tables not made", key=self._name, code=code, error=text)
            self._report(self._name, Holding.FAILED, {**self._detail, "error": text}, reason=code)
            return
        if key.tabulated:
            seconds = round(time.monotonic() - began, 1)
            log.info("tables ready", key=self._name, mib=key.nbytes >> 20, seconds=seconds)
            self._say(1.0)
            done = {**self._detail, "progress": 1.0, "bytes": key.nbytes, "seconds": seconds}
            self._report(self._name, Holding.READY, done)

    def _progress(self) -> Callable[[float], None]:
        said = -1.0

        def made(fraction: float) -> None:
            nonlocal said
            if self._stopped.is_set() or not threading.main_thread().is_alive():
                raise _Ending
            if fraction >= said + _LEAST_PROGRESS:
                said = fraction
                self._say(fraction)

        return made

    def _say(self, fraction: float) -> None:
        self._report(self._name, Holding.LOADING, {**self._detail, "progress": fraction})
