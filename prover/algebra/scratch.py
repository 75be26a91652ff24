"""Buffers that the host fills and a program reads, reused from call to call, one set a thread and device."""

from __future__ import annotations

import threading
from typing import Any, Final

import jax
import numpy as np
import numpy.typing as npt

from prover.algebra import kernels

#: XLA's CPU backend reads host memory in place where it is aligned so
_ALIGNMENT: Final = 64

_local = threading.local()


class Scratch:
    """`host` is written with numpy, `array()` is what a program is given. On a CPU both are the same memory, so the
    host may write again only after the program that reads it has ended."""

    def __init__(self, shape: tuple[int, ...], dtype: npt.DTypeLike, device: jax.Device) -> None:
        self.host, self.device = _aligned(shape, np.dtype(dtype)), device
        self._view = jax.device_put(self.host, device, may_alias=True) if device.platform == "cpu" else None

    def array(self) -> jax.Array:
        """What was written, on the device."""
        result: jax.Array = self._view if self._view is not None else jax.device_put(self.host, self.device)
        return result


def scratch(name: str, shape: tuple[int, ...], dtype: npt.DTypeLike) -> Scratch:
    """This thread's buffer of that name and shape on its device; its old content is whatever was written last."""
    device = kernels.device()
    known: dict[Any, Scratch] = _local.__dict__.setdefault("known", {})
    key = (name, shape, np.dtype(dtype).str, device)
    if key not in known:
        known[key] = Scratch(shape, dtype, device)
    return known[key]


def _aligned(shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    size = int(np.prod(shape)) * dtype.itemsize
    raw = np.zeros(size + _ALIGNMENT, np.uint8)
    offset = -raw.ctypes.data % _ALIGNMENT
    return raw[offset : offset + size].view(dtype).reshape(shape)
