"""Buffers that the host fills and a program reads, reused from call to call, one set a thread and place."""

from __future__ import annotations

import threading
from typing import Any, Final

import jax
import numpy as np
import numpy.typing as npt

from prover.algebra import kernels
from prover.algebra.kernels import Place
from prover.algebra.mesh import DeviceMesh

#: XLA's CPU backend reads host memory in place where it is aligned so
_ALIGNMENT: Final = 64

_local = threading.local()


class Scratch:
    """`host` is written with numpy, `array()` is what a program is given. On a CPU both are the same memory, so the
    host may write again only after the program that reads it has ended."""

    def __init__(self, shape: tuple[int, ...], dtype: npt.DTypeLike, place: Place) -> None:
        self.host = _aligned(shape, np.dtype(dtype))
        self._view = _alias(self.host, place) if kernels.on_cpu() else None

    def array(self) -> jax.Array:
        """What was written, on the device."""
        return self._view if self._view is not None else kernels.put(self.host, cut=True)


def scratch(name: str, shape: tuple[int, ...], dtype: npt.DTypeLike) -> Scratch:
    """This thread's buffer of that name and shape for its place, over whose devices it is cut; its old content is
    whatever was written last."""
    place = kernels.place()
    known: dict[Any, Scratch] = _local.__dict__.setdefault("known", {})
    key = (name, shape, np.dtype(dtype).str, place)
    if key not in known:
        known[key] = Scratch(shape, dtype, place)
    return known[key]


def _alias(array: npt.NDArray[Any], place: Place) -> jax.Array:
    if isinstance(place, DeviceMesh):
        return place.alias(array)
    result: jax.Array = jax.device_put(array, place, may_alias=True)
    return result


def _aligned(shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    size = int(np.prod(shape)) * dtype.itemsize
    raw = np.zeros(size + _ALIGNMENT, np.uint8)
    offset = -raw.ctypes.data % _ALIGNMENT
    return raw[offset : offset + size].view(dtype).reshape(shape)
