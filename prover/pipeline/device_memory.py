"""Bounds on what devices hold at a time, set by the configuration; one that turns out too large is halved, and seen."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import structlog

from ..algebra import chunks
from ..algebra.chunks import Limit
from ..memory import DEVICE_SHARE
from ..states import Holding, JsonObject
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


@dataclass(frozen=True, slots=True)
class DeviceUse:
    """How a device's own memory is used, in bytes: apart from the host's budget, bounded by chunks."""

    device: int
    total: int
    used: int | None  # by its allocator's own reading
    chunk: int  # what it is given at a time at most
    resident: int  # of bases and tables that stay on it between sums
    resident_limit: int

    def to_json(self) -> JsonObject:
        """As the journal samples it."""
        return {
            "device": self.device, "total_bytes": self.total, "used_bytes": self.used, "chunk_bytes": self.chunk,
            "resident_bytes": self.resident, "resident_limit_bytes": self.resident_limit,
        }  # fmt: skip


def device_use(device: Device) -> DeviceUse | None:
    """None for a device whose memory is the host's."""
    limit, own = chunks.limit_of(device.handle), device.own_memory
    if limit is None or own is None:
        return None
    stats = getattr(device.handle, "memory_stats", lambda: None)() or {}
    return DeviceUse(device.ordinal, own, stats.get("bytes_in_use"), limit.nbytes, limit.resident, limit.most_resident)


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
