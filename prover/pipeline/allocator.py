"""One allocator numbers the workers, for registration and loops: W0, W1 on the first device, W2, W3 on the second."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..states import JsonObject, device_id, worker_id


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """A physical device, by its stable identity prover/ordinal."""

    prover: str
    ordinal: int
    name: str = ""
    platform: str = ""
    memory_total_bytes: int | None = None

    @property
    def id(self) -> str:
        """prover/ordinal."""
        return device_id(self.prover, self.ordinal)

    def detail(self) -> JsonObject:
        """The part that the event log carries."""
        return {
            "ordinal": self.ordinal, "name": self.name, "platform": self.platform,
            "memory_total_bytes": self.memory_total_bytes,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class WorkerSlot:
    """A worker: `number` is the n of its label Wn; `sub_id` counts the workers of a device."""

    number: int
    device: DeviceInfo
    sub_id: int

    @property
    def id(self) -> str:
        """prover/ordinal/sub: stable over restarts, whatever the number."""
        return worker_id(self.device.prover, self.device.ordinal, self.sub_id)

    def detail(self, epoch: int) -> JsonObject:
        """The part that the event log carries."""
        return {"display": self.number, "ordinal": self.device.ordinal, "sub": self.sub_id, "epoch": epoch}


def allocate(devices: Sequence[DeviceInfo], per_device: int) -> tuple[WorkerSlot, ...]:
    """`per_device` workers for each device, numbered in the devices' order. Raises ValueError for fewer than one."""
    if per_device < 1:
        raise ValueError(f"workers per device: {per_device} is less than 1")
    pairs = ((device, sub) for device in devices for sub in range(per_device))
    return tuple(WorkerSlot(number, device, sub) for number, (device, sub) in enumerate(pairs))
