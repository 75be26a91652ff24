"""Devices, and the lock that one attempt at a time holds while its device works for it."""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import numpy as np

from ..algebra.mesh import DeviceMesh
from ..errors import CuzkError
from .allocator import DeviceInfo
from .attempts import Order


class DeviceMissing(CuzkError):
    """A device that the configuration names does not exist."""

    code = "device_missing"


class DevicesUneven(CuzkError):
    """The devices do not make groups of as many as are to work on one proof."""

    code = "devices_uneven"


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
    """A device, or a group that works on one proof, that attempts can hold; `handle` is the JAX device or the mesh (or
    what a test's kind understands)."""

    info: DeviceInfo
    handle: Any
    lock: DeviceLock = field(init=False)
    observer: Observer | None = None
    probe: Callable[[], object] | None = None  # computes a little there; raises when the device does not
    lost: CuzkError | None = None  # why it is not there; kept over sessions

    def __post_init__(self) -> None:
        self.lock = DeviceLock(self.info.id, self.observer)

    @property
    def ordinal(self) -> int:
        """Its number on this host; of a group, that of its first device."""
        return self.info.ordinal

    @property
    def own_memory(self) -> int | None:
        """Bytes that it has of its own; of a group, each of its devices. None for a CPU."""
        total = self.info.memory_total_bytes
        count = len(self.handle.devices) if isinstance(self.handle, DeviceMesh) else 1
        return None if total is None else total // count

    @property
    def free_memory(self) -> int | None:
        """Bytes of its own memory that nobody has allocated now; None for a CPU and for a group."""
        stats = getattr(self.handle, "memory_stats", lambda: None)() or {}
        return stats["bytes_limit"] - stats["bytes_in_use"] if {"bytes_limit", "bytes_in_use"} <= stats.keys() else None


def discover(
    prover: str,
    jax_devices: Sequence[Any],
    ordinals: Sequence[int] = (),
    observer: Observer | None = None,
    *,
    per_proof: int = 1,
) -> list[Device]:
    """The devices with these ordinals, all when there are none; `per_proof` in a row make one.

    Raises DeviceMissing for one that JAX does not have, DevicesUneven where some would be left over.
    """
    known = dict(enumerate(jax_devices))
    wanted = list(ordinals) or sorted(known)
    for ordinal in wanted:
        if ordinal not in known:
            have = ", ".join(f"{n} ({device.platform})" for n, device in known.items()) or "none"
            raise DeviceMissing(f"device {ordinal} does not exist; JAX has {have}", field="gpus.devices")
    if len(wanted) % per_proof:
        raise DevicesUneven(
            f"{len(wanted)} devices do not make groups of {per_proof}", field="gpus.devices_per_proof"
        )  # fmt: skip
    groups = [wanted[first : first + per_proof] for first in range(0, len(wanted), per_proof)]
    return [_device(prover, group[0], [known[n] for n in group], observer) for group in groups]


def _device(prover: str, ordinal: int, group: Sequence[Any], observer: Observer | None) -> Device:
    first = group[0]
    if len(group) == 1:
        info = DeviceInfo(prover, ordinal, first.device_kind, first.platform, _memory(first))
        return Device(info, first, observer, partial(_compute_a_little, group))
    smallest = min((size for size in map(_memory, group) if size is not None), default=None)
    memory = smallest * len(group) if smallest is not None else None  # what they hold, each holds whole
    info = DeviceInfo(prover, ordinal, f"{first.device_kind} ({len(group)} as one)", first.platform, memory)
    return Device(info, DeviceMesh.of(group), observer, partial(_compute_a_little, group))


def _compute_a_little(devices: Sequence[Any]) -> None:
    """On each of them. Raises JaxRuntimeError."""
    for device in devices:
        (jax.device_put(np.ones(1, np.float32), device) + 1).block_until_ready()


def _memory(device: Any) -> int | None:
    """Bytes of its own memory; None for a CPU."""
    stats = getattr(device, "memory_stats", lambda: None)() or {}
    size: int | None = stats.get("bytes_limit")
    return size
