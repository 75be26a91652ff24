"""Which devices are there. One that is lost takes its workers out of work, and a probe brings them back.

Retries are not spent on a device that is missing: what it had is given to others, or waits.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import structlog

from ..errors import CuzkError
from .allocator import WorkerSlot
from .device_faults import DeviceLost, DeviceOutOfMemory
from .devices import Device
from .kinds import DeviceFailed
from .retry import PROBE_EVERY_S
from .tracker import StatusTracker

log = structlog.get_logger(__name__)


class Availability:
    """The devices of a session. Thread-safe; probes run in threads of their own, one a device: one may hang."""

    def __init__(
        self, tracker: StatusTracker, devices: Mapping[str, Device], workers: Sequence[WorkerSlot],
        changed: Callable[[], None], *, every_s: float = PROBE_EVERY_S,
    ) -> None:  # fmt: skip
        """`changed` is called when a device went or came back."""
        self._tracker = tracker
        self._devices = devices
        self._workers = workers
        self._changed = changed
        self._every_s = every_s
        self._began: dict[str, float] = {}  # device -> when its last probe began
        self._probing: set[str] = set()
        self._lock = threading.Lock()

    def begin(self) -> None:
        """Once all are registered: a device that was lost in an earlier session is lost still."""
        for device in self._lost():
            assert device.lost is not None
            self._say_lost(device, device.lost)

    def heard(self, device: Device, error: BaseException) -> None:
        """An attempt failed on the device: it is lost, or is suspected and probed at once."""
        if isinstance(error, DeviceLost):
            self._lose(device, error)
        elif isinstance(error, DeviceFailed) and not isinstance(error, DeviceOutOfMemory):
            self._probe_soon(device)

    def look(self) -> None:
        """Probe what is lost. To be called now and then."""
        for device in self._lost():
            if time.monotonic() - self._began.get(device.info.id, 0.0) >= self._every_s:
                self._probe_soon(device)

    def _lost(self) -> Iterable[Device]:
        return [device for device in self._devices.values() if device.lost is not None]

    def _probe_soon(self, device: Device) -> None:
        with self._lock:
            if device.probe is None or device.info.id in self._probing:
                return
            self._probing.add(device.info.id)
            self._began[device.info.id] = time.monotonic()
        probe = partial(self._probe, device, device.probe)
        threading.Thread(target=probe, name=f"probe-{device.ordinal}", daemon=True).start()

    def _probe(self, device: Device, probe: Callable[[], object]) -> None:
        try:
            probe()
        except Exception as error:
            self._lose(device, DeviceLost(f"device {device.ordinal} does not compute: {error}"))
        else:
            self._find(device)
        finally:
            with self._lock:
                self._probing.discard(device.info.id)

    def _lose(self, device: Device, error: DeviceLost) -> None:
        with self._lock:
            if device.lost is not None:
                return
            device.lost = error
            self._began.setdefault(device.info.id, time.monotonic())
            self._say_lost(device, error)
        log.error("device lost", gpu=device.ordinal, error=str(error))
        self._changed()

    def _find(self, device: Device) -> None:
        with self._lock:
            if device.lost is None or not self._tracker.device_found(device.info.id, self._of(device)):
                return
            device.lost = None
        log.warning("device is back", gpu=device.ordinal)
        self._changed()

    def _say_lost(self, device: Device, error: CuzkError) -> None:
        self._tracker.device_lost(device.info.id, self._of(device), error)

    def _of(self, device: Device) -> list[str]:
        return [worker.id for worker in self._workers if worker.device.id == device.info.id]
