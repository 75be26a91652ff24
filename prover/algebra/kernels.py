"""Compiled programs of fixed shapes, and the tile sizes they are made for: the one place that depends on the
platform."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import jax
import numpy as np
import numpy.typing as npt

T = TypeVar("T")
U = TypeVar("U")

Residues = npt.NDArray[np.float32]
"""Field elements as residues, residue-major: float32[2k, n]."""


@dataclass(frozen=True)
class Tiles:
    """Columns a program works on at a time: a tile must fit a core's cache on a CPU, and fill a GPU."""

    field: int  # elements a call of a field program
    lanes: int  # points added side by side
    batch: int  # tiles of lanes a call
    steps: int  # additions a lane makes in one call, at most
    fft: int  # columns of a sub-transform


_CPU: Final = Tiles(field=4096, lanes=128, batch=4, steps=48, fft=32)
_GPU: Final = Tiles(field=1 << 16, lanes=1 << 14, batch=1, steps=16, fft=1 << 9)

# measured on AVX2: the newer fusion emitters cost 1.25x on point addition; threads are ours, over independent tiles
_CPU_OPTIONS: Final[dict[str, bool | str]] = {
    "xla_cpu_multi_thread_eigen": False,
    "xla_cpu_use_fusion_emitters": False,
}


def platform() -> str:
    return jax.default_backend()


def tiles() -> Tiles:
    return _CPU if platform() == "cpu" else _GPU


class Kernel:
    """A function compiled once for each shape, with the platform's options; the platform is asked at the first call."""

    registry: Final[list[Kernel]] = []

    def __init__(self, function: Callable[..., Any], static: tuple[str, ...]) -> None:
        self.function, self.static = function, static
        functools.update_wrapper(self, function)
        Kernel.registry.append(self)

    @functools.cached_property
    def jitted(self) -> Any:
        options = _CPU_OPTIONS if platform() == "cpu" else None
        return jax.jit(self.function, static_argnames=self.static, compiler_options=options)

    def __call__(self, *arguments: Any, **static: Any) -> Any:
        return self.jitted(*arguments, **static)

    def programs(self) -> int:
        """How many programs were compiled: it must not grow from proof to proof."""
        return int(self.jitted._cache_size())


def kernel(*static: str) -> Callable[[Callable[..., Any]], Kernel]:
    """Decorator: make a Kernel; `static` names arguments that choose a program."""
    return lambda function: Kernel(function, static)


def compiled_programs() -> int:
    """Programs compiled so far in this process."""
    return sum(k.programs() for k in Kernel.registry)


@functools.cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="algebra")


def in_threads(function: Callable[[T], U], items: Iterable[T], threads: int) -> list[U]:
    """`function` of each item, in order, on `threads` threads. Items must not call this again with the same pool."""
    return list(map(function, items) if threads <= 1 else _pool(threads).map(function, items))
