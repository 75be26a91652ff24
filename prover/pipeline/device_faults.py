"""What a device's failure was: no room, the device itself, or something else. Judged where JAX raises it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import jax

from ..algebra import chunks
from .device_memory import halvings_seen
from .devices import Device
from .kinds import DeviceFailed, Report


class DeviceOutOfMemory(DeviceFailed):
    """The device had no room for what it was given."""

    code = "device_out_of_memory"


class DeviceLost(DeviceFailed):
    """The device is not there any more."""

    code = "device_lost"


#: how CUDA and XLA say that a device, or this process' hold on it, is gone for good
_GONE = (
    "CUDA_ERROR_NO_DEVICE", "CUDA_ERROR_INVALID_DEVICE", "CUDA_ERROR_DEVICE_UNAVAILABLE", "CUDA_ERROR_DEINITIALIZED",
    "CUDA_ERROR_CONTEXT_IS_DESTROYED", "CUDA_ERROR_ECC_UNCORRECTABLE", "CUDA_ERROR_HARDWARE_STACK_ERROR",
    "CUDA_ERROR_ILLEGAL_ADDRESS", "CUDA_ERROR_LAUNCH_FAILED", "CUDA_ERROR_NOT_INITIALIZED",
    "CUDA_ERROR_SYSTEM_NOT_READY", "no CUDA-capable device", "fallen off the bus",
)  # fmt: skip
_NO_ROOM = ("RESOURCE_EXHAUSTED", "CUDA_ERROR_OUT_OF_MEMORY")


def cause_of(error: Exception, device: Device) -> DeviceFailed:
    """The error of ours that stands for one of JAX."""
    text = f"device {device.ordinal}: {error}"
    if any(words in str(error) for words in _NO_ROOM):
        return DeviceOutOfMemory(text)
    return DeviceLost(text) if any(words in str(error) for words in _GONE) else DeviceFailed(text)


@contextmanager
def device_phase(device: Device, report: Report | None = None) -> Iterator[None]:
    """A block that uses the device. Raises DeviceOutOfMemory, DeviceLost or DeviceFailed for what JAX raises.

    Where there was no room although chunks are halved, all that follow are smaller still.
    """
    with halvings_seen(device, report):
        try:
            yield
        except jax.errors.JaxRuntimeError as error:
            cause = cause_of(error, device)
            if isinstance(cause, DeviceOutOfMemory):
                _shrink(device)
            raise cause from error


def _shrink(device: Device) -> None:
    limit = chunks.limit_of(device.handle)
    if limit is not None:
        limit.halve(limit.nbytes)
