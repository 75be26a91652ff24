"""Several devices that share one sum: the lanes of a batch are dealt out to them, and `jax.shard_map` runs one program
on all. Host memory holds the sums between two programs, so none of these programs communicates.

The devices of a mesh may belong to several processes (hosts, see `hosts`): then each process computes its share of the
entries on its own devices, and what is left of that, a point, is gathered over the mesh of processes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, TypeAlias

import jax
import numpy as np
import numpy.typing as npt
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from prover.errors import InvalidInput

_AXIS: Final = "devices"
HOSTS: Final = "hosts"
_CUT: Final = PartitionSpec(_AXIS)  # type: ignore[no-untyped-call]
_WHOLE: Final = PartitionSpec()  # type: ignore[no-untyped-call]

#: what XLA is told to compile by
Options: TypeAlias = dict[str, bool | int | str]


class DevicesUnfit(InvalidInput):
    """These devices cannot share a sum."""

    code = "devices_unfit"


@dataclass(frozen=True)
class DeviceMesh:
    """Devices of one platform, in the order of their processes; at least one is of this process. Of processes, those
    that are done wait for the others `patience_s`: longer than a sum takes."""

    devices: tuple[jax.Device, ...]
    patience_s: float = field(default=120.0, compare=False)

    @classmethod
    def of(cls, devices: Sequence[jax.Device], patience_s: float = 120.0) -> DeviceMesh:
        """Raises DevicesUnfit for none, for one named twice, for two platforms, and where none is of this process."""
        ordered = tuple(sorted(devices, key=lambda device: device.process_index))
        if len(set(ordered)) != len(ordered) or len({device.platform for device in ordered}) != 1:
            raise DevicesUnfit(f"want different devices of one platform, not {list(devices)}", field="devices")
        mesh = cls(ordered, patience_s)
        if not mesh.local:
            raise DevicesUnfit(f"none of {list(devices)} belongs to this process", field="devices")
        return mesh

    @cached_property
    def local(self) -> tuple[jax.Device, ...]:
        """Those of this process, which compute what it is asked for."""
        return tuple(device for device in self.devices if device.process_index == jax.process_index())

    @cached_property
    def processes(self) -> tuple[int, ...]:
        """The process of each device."""
        return tuple(device.process_index for device in self.devices)

    def own(self, count: int) -> slice:
        """Which of `count` entries this process adds: as many for each device, to one."""
        first = self.devices.index(self.local[0])
        return slice(*(count * n // len(self.devices) for n in (first, first + len(self.local))))

    # one process

    @cached_property
    def _mesh(self) -> Mesh:
        return Mesh(np.array(self.local), (_AXIS,))

    def put(self, array: npt.NDArray[Any], *, cut: bool) -> jax.Array:
        """The array over the devices of this process: its leading axis cut, or whole on each."""
        result: jax.Array = jax.device_put(array, NamedSharding(self._mesh, _CUT if cut else _WHOLE))
        return result

    def alias(self, array: npt.NDArray[Any]) -> jax.Array:
        """The same, cut, where devices are CPUs: they read the host's memory, if it is aligned, in place."""
        parts = zip(np.split(array, len(self.local)), self.local, strict=True)
        placed = [jax.device_put(part, device, may_alias=True) for part, device in parts]
        cut = NamedSharding(self._mesh, _CUT)
        result: jax.Array = jax.make_array_from_single_device_arrays(array.shape, cut, placed)
        return result

    def program(
        self, function: Callable[..., Any], cut: Sequence[bool], options: dict[str, bool | int | str] | None
    ) -> Any:
        """`function` on each device's part of the arguments that are cut, and on the whole of the others; the leading
        axis of what it gives is put together."""
        specs = tuple(_CUT if each else _WHOLE for each in cut)
        # the programs' loops run as often as each device's own data say, which the check does not allow
        over = jax.shard_map(function, mesh=self._mesh, in_specs=specs, out_specs=_CUT, check_vma=False)
        compiled = jax.jit(over, compiler_options=options)

        def run(*arguments: Any) -> Any:
            # of several processes JAX takes no numpy arrays to cut, not even for devices of one of them
            placed = [
                self.put(argument, cut=each) if isinstance(argument, np.ndarray) else argument
                for argument, each in zip(arguments, cut, strict=True)
            ]
            return compiled(*placed)

        return run

    # several processes

    @cached_property
    def hosts(self) -> Mesh:
        """One device of each process."""
        firsts = dict(zip(reversed(self.processes), reversed(self.devices), strict=True))
        return Mesh(np.array([firsts[process] for process in sorted(firsts)]), (HOSTS,))


def dealt(count: int, devices: int, capacity: int) -> npt.NDArray[np.int64]:
    """The lane of each of `count` items, `capacity` lanes a device: like cards, so that of items sorted by length the
    devices' totals differ by no more than the longest."""
    items = np.arange(count)
    result: npt.NDArray[np.int64] = items % devices * capacity + items // devices
    return result
