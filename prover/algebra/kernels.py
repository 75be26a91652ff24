"""Compiled programs of fixed shapes, the device they run on, and the tile sizes that suit it.

Programs run at the place of the innermost `on(place)` of the calling thread, JAX's first device where there is none;
`in_threads` carries it to its threads. Host memory and tile sizes follow that place, not JAX's default platform. A
place is a device, or several that share the lanes of a sum (`mesh`); programs that are not cut run on the first of
these.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

import jax
import numpy as np
import numpy.typing as npt

from prover.algebra.mesh import DeviceMesh, Options

T = TypeVar("T")
U = TypeVar("U")

Residues = npt.NDArray[np.float32]
"""Field elements as residues, residue-major: float32[2k, n]."""


Place: TypeAlias = jax.Device | DeviceMesh


@dataclass(frozen=True)
class Tiles:
    """Columns a program works on at a time: a tile must fit a core's cache on a CPU, and fill a GPU."""

    field: int  # elements a call of a field program
    lanes: int  # points added side by side
    batch: int  # tiles of lanes a call
    steps: int  # additions a lane makes in one call, at most
    fft: int  # columns of a sub-transform
    rows: int  # rows of such columns that are worked on together


_CPU: Final = Tiles(field=4096, lanes=128, batch=4, steps=48, fft=32, rows=16)
_GPU: Final = Tiles(field=1 << 16, lanes=1 << 14, batch=1, steps=16, fft=1 << 9, rows=1 << 12)

# Threads are ours, over independent tiles: a program that XLA cuts up for threads of its own waits for them, and leaves
# the core that its thread was given. Vectors as wide as the processor has: XLA uses 256 bits where it is not told
_CPU_OPTIONS: Final[Options] = {
    "xla_cpu_multi_thread_eigen": False,
    "xla_cpu_use_fusion_emitters": True,
    "xla_cpu_prefer_vector_width": 512,
    "xla_disable_hlo_passes": "cpu-parallel-task-assigner",
}


_chosen: ContextVar[Place | None] = ContextVar("place", default=None)


@contextmanager
def on(place: Place | None) -> Iterator[None]:
    """Run programs of this thread there, for a block; None: on JAX's first device."""
    before = _chosen.set(place)
    try:
        with jax.default_device(None if place is None else first_of(place)):
            yield
    finally:
        _chosen.reset(before)


def host() -> jax.Device:
    """The CPU device for what is no device phase: synthesis, keys, tails. `jaxconf` keeps the last one from proving."""
    return jax.local_devices(backend="cpu")[-1]


def place() -> Place:
    """Where programs of this thread run."""
    return _chosen.get() or jax.local_devices()[0]


def device() -> jax.Device:
    """Where those run that are not cut."""
    return first_of(place())


def first_of(place: Place) -> jax.Device:
    """The device there, of several the first."""
    return place.local[0] if isinstance(place, DeviceMesh) else place


def shares() -> int:
    """How many devices share the lanes of a program that is cut: its arrays have as many times the tiles."""
    where = place()
    return len(where.local) if isinstance(where, DeviceMesh) else 1


def put(array: npt.NDArray[Any], *, cut: bool) -> jax.Array:
    """The array at the place of this thread: its leading axis cut over the devices there, or whole on each."""
    where = place()
    if isinstance(where, DeviceMesh):
        return where.put(array, cut=cut)
    result: jax.Array = jax.device_put(array, where)
    return result


def on_cpu() -> bool:
    """Whether that place is a CPU, whose memory is the host's."""
    return bool(device().platform == "cpu")


def tiles() -> Tiles:
    return _CPU if on_cpu() else _GPU


class Kernel:
    """A function compiled once for each shape, with the options of the platform it runs on."""

    registry: Final[list[Kernel]] = []

    def __init__(self, function: Callable[..., Any], static: tuple[str, ...], cut: tuple[bool, ...]) -> None:
        self.function, self.static, self._cut = function, static, cut
        self._traces: list[None] = []
        self._over: dict[Any, Any] = {}
        self._making = threading.Lock()
        functools.update_wrapper(self, function)
        Kernel.registry.append(self)

    def _traced(self, *arguments: Any, **static: Any) -> Any:
        """The function, as JAX runs it: once for each program."""
        self._traces.append(None)
        return self.function(*arguments, **static)

    @functools.cached_property
    def _for_cpu(self) -> Any:
        return jax.jit(self._traced, static_argnames=self.static, compiler_options=_CPU_OPTIONS)

    @functools.cached_property
    def _for_others(self) -> Any:
        return jax.jit(self._traced, static_argnames=self.static)

    @property
    def jitted(self) -> Any:
        return self._for_cpu if on_cpu() else self._for_others

    def _shared(self, mesh: DeviceMesh, **static: Any) -> Any:
        """The program for the devices of a mesh."""
        key = (mesh, *static.items())
        with self._making:
            if key not in self._over:
                function = functools.partial(self._traced, **static)
                self._over[key] = mesh.program(function, self._cut, _CPU_OPTIONS if on_cpu() else None)
        return self._over[key]

    def __call__(self, *arguments: Any, **static: Any) -> Any:
        where = place()
        if self._cut and isinstance(where, DeviceMesh):
            return self._shared(where, **static)(*arguments)
        return self.jitted(*arguments, **static)

    def compile(self, *shapes: Any, **static: Any) -> None:
        """Compile, or read from JAX's cache, the program for numpy arrays of these shapes; nothing is computed."""
        self.jitted.lower(*shapes, **static).compile()

    def programs(self) -> int:
        """How many programs were traced: it must not grow from proof to proof."""
        return len(self._traces)


def kernel(*static: str, cut: tuple[bool, ...] = ()) -> Callable[[Callable[..., Any]], Kernel]:
    """Decorator: make a Kernel; `static` names arguments that choose a program; `cut` says of each of the others
    whether its leading axis is cut over the devices of a mesh. Without it one device of a mesh runs the program."""
    return lambda function: Kernel(function, static, cut)


def compiled_programs() -> int:
    """Programs compiled so far in this process."""
    return sum(k.programs() for k in Kernel.registry)


@functools.cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="algebra")


def in_threads(function: Callable[[T], U], items: Iterable[T], threads: int) -> list[U]:
    """`function` of each item, in order, on `threads` threads at the caller's place. Items must not call this again
    with the same pool."""
    if threads <= 1:
        return list(map(function, items))
    where = place()

    def placed(item: T) -> U:
        with on(where):
            return function(item)

    return list(_pool(threads).map(placed, items))
