"""A key's tables, made in the background once the key is in use.

The thread has the lowest priority and yields to everything that proves; each section of the key is faster as soon as
its tables are there. What is made shows as a holding of its own: loading with its progress, ready with its bytes.
"""

from __future__ import annotations

import contextlib
import os
import threading

import structlog

from ..errors import describe
from ..groth16.prover import ProvingKey
from ..states import Holding, JsonObject
from .kinds import Report

log = structlog.get_logger(__name__)
_LOWEST_PRIORITY = 19


class _Ending(Exception):
    """The process ends."""


def make_later(key: ProvingKey, table_bytes: int, name: str, detail: JsonObject, report: Report) -> threading.Thread:
    """Start making the tables that `table_bytes` of memory hold, seen as the holding `name`; the thread that does."""
    thread = threading.Thread(target=_make, args=(key, table_bytes, name, detail, report), name="tables")
    thread.start()
    return thread


def _make(key: ProvingKey, table_bytes: int, name: str, detail: JsonObject, report: Report) -> None:
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LOWEST_PRIORITY)

    def made(fraction: float) -> None:
        if not threading.main_thread().is_alive():
            raise _Ending
        if fraction:
            report(name, Holding.READY, {**detail, "progress": fraction, "bytes": key.nbytes})
        if fraction < 1:
            report(name, Holding.LOADING, {**detail, "progress": fraction})

    try:
        key.tabulate(table_bytes, made)
    except _Ending:
        return
    except Exception as error:
        code, text = describe(error)
        log.warning("tables not made", key=name, code=code, error=text)
        report(name, Holding.FAILED, {**detail, "error": text}, reason=code)
