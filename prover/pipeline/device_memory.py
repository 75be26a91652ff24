"""Bounds on what devices hold at a time, set by the configuration; one that turns out too large is halved, and seen."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import structlog

from ..algebra import chunks
from ..algebra.chunks import Limit
from ..memory import DEVICE_SHARE
from ..states import Holding
from .devices import Device
from .kinds import Report

log = structlog.get_logger(__name__)
#: where nothing is said, this part of a device's own memory is a chunk
_CHUNK_SHARE = 8


def bound_chunks(devices: Sequence[Device], chunk: int | None, resident: int | None) -> None:
    """Let each device hold `chunk` bytes at a time, and `resident` bytes of bases and tables between sums; None: a part
    of its own memory. A CPU device, whose memory is the host's, is bounded only if `chunk` says so."""
    for device in devices:
        own = device.own_memory
        if own is None and chunk is None:
            continue
        nbytes = (own or 0) // _CHUNK_SHARE if chunk is None else chunk
        chunks.bound(device.handle, Limit(nbytes, (own or 0) // DEVICE_SHARE if resident is None else resident))


@contextmanager
def halvings_seen(device: Device, report: Report | None) -> Iterator[None]:
    """When a chunk of this block did not fit and was halved: a line in the log, with the worker, and a holding."""
    limit = chunks.limit_of(device.handle)
    before = limit.nbytes if limit else 0
    try:
        yield
    finally:
        if limit and limit.nbytes < before:
            worker = threading.current_thread().name
            log.warning("chunk halved", worker=worker, gpu=device.ordinal, from_bytes=before, to_bytes=limit.nbytes)
            if report:
                name, detail = f"chunk:{device.ordinal}", {"name": "chunks, halved", "device": device.ordinal}
                report(name, Holding.LOADING, {**detail})
                report(name, Holding.READY, {**detail, "bytes": limit.nbytes})
