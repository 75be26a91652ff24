"""Devices, and the lock that one attempt at a time holds while its device works for it."""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ..errors import CuzkError
from .allocator import DeviceInfo
from .attempts import Order


class DeviceMissing(CuzkError):
    """A device that the configuration names does not exist."""

    code = "device_missing"


@dataclass(frozen=True, slots=True)
class Observation:
    """What happened in truth, recorded where it happens and outside the tracker: tests compare the tracker with it."""

    mono_ns: int
    what: str  # device_acquired, device_released, worker_busy, worker_free
    where: str  # the device's or the worker's stable identity
    attempt: str


Observer = Callable[[Observation], None]


class DeviceLock:
    """Mutual exclusion on a physical device. Who waits gets it by `Order`, first in first out among equals."""

    def __init__(self, device: str, observer: Observer | None = None) -> None:
        self._device = device
        self._observer = observer
        self._changed = threading.Condition()
        self._waiting: list[tuple[Order, int]] = []
        self._tickets = itertools.count()
        self._held = False

    @contextmanager
    def hold(self, order: Order, attempt: str) -> Iterator[None]:
        """Wait for the device and keep it for the block. The block may only contain what the device does."""
        self._acquire(order)
        try:
            self._observe("device_acquired", attempt)
            yield
        finally:
            self._observe("device_released", attempt)
            self._release()

    @property
    def waiting(self) -> int:
        """How many wait."""
        with self._changed:
            return len(self._waiting)

    def _acquire(self, order: Order) -> None:
        with self._changed:
            ticket = (order, next(self._tickets))
            heapq.heappush(self._waiting, ticket)
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._held and self._waiting[0] is ticket)
            heapq.heappop(self._waiting)
            self._held = True

    def _release(self) -> None:
        with self._changed:
            self._held = False
            self._changed.notify_all()

    def _observe(self, what: str, attempt: str) -> None:
        if self._observer is not None:
            self._observer(Observation(time.monotonic_ns(), what, self._device, attempt))


@dataclass(slots=True)
class Device:
    """A device that attempts can hold; `handle` is the JAX device (or what a test's kind understands)."""

    info: DeviceInfo
    handle: Any
    lock: DeviceLock = field(init=False)
    observer: Observer | None = None

    def __post_init__(self) -> None:
        self.lock = DeviceLock(self.info.id, self.observer)

    @property
    def ordinal(self) -> int:
        """Its number on this host."""
        return self.info.ordinal


def discover(
    prover: str, jax_devices: Sequence[Any], ordinals: Sequence[int] = (), observer: Observer | None = None
) -> list[Device]:
    """The devices with these ordinals, all when there are none. Raises DeviceMissing for one that JAX does not have."""
    known = dict(enumerate(jax_devices))
    wanted = list(ordinals) or sorted(known)
    for ordinal in wanted:
        if ordinal not in known:
            have = ", ".join(f"{n} ({device.platform})" for n, device in known.items()) or "none"
            raise DeviceMissing(f"device {ordinal} does not exist; JAX has {have}", field="gpus.devices")
    return [Device(_info(prover, n, known[n]), known[n], observer) for n in wanted]


def _info(prover: str, ordinal: int, device: Any) -> DeviceInfo:
    stats = getattr(device, "memory_stats", lambda: None)() or {}
    return DeviceInfo(prover, ordinal, device.device_kind, device.platform, stats.get("bytes_limit"))
