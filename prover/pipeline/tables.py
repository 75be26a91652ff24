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
    """The process ends."""


def make_later(key: ProvingKey, table_bytes: int, name: str, detail: JsonObject, report: Report) -> threading.Thread:
    """Start making the tables that `table_bytes` of memory hold, seen as the holding `name`; the thread that does."""
    thread = threading.Thread(target=_make, args=(key, table_bytes, name, detail, report), name=THREAD_NAME)
    thread.start()
    return thread


def _make(key: ProvingKey, table_bytes: int, name: str, detail: JsonObject, report: Report) -> None:
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LOWEST_PRIORITY)

    began, said = time.monotonic(), -1.0

    def made(fraction: float) -> None:
        nonlocal said
        if not threading.main_thread().is_alive():
            raise _Ending
        if fraction >= said + _LEAST_PROGRESS:
            said = fraction
            report(name, Holding.LOADING, {**detail, "progress": fraction})

    try:
        key.tabulate(table_bytes, made)
    except _Ending:
        return
    except Exception as error:
        code, text = describe(error)
        log.warning("tables not made", key=name, code=code, error=text)
        report(name, Holding.FAILED, {**detail, "error": text}, reason=code)
        return
    if key.tabulated:
        seconds = round(time.monotonic() - began, 1)
        made(1.0)
        log.info("tables ready", key=name, mib=key.nbytes >> 20, seconds=seconds)
        report(name, Holding.READY, {**detail, "progress": 1.0, "bytes": key.nbytes, "seconds": seconds})
