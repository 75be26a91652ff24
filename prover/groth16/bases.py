"""The bases of a key's five sums, mapped from disk or made, and the tables that make the sums faster."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from prover.algebra import kernels
from prover.algebra.bases import Kept, Layout, kept
from prover.algebra.curve import G1, G2, Group
from prover.algebra.msm import FixedBases
from prover.circuits.matrices import Matrices
from prover.groth16.keys import Parameters
from prover.groth16.layouts import Section, choose
from prover.groth16.qap import Bytes, Wires
from prover.groth16.tables import TablesNotKept, TableStore, Told

log = logging.getLogger(__name__)

_GROUPS: Final[dict[str, Group]] = {"h": G1, "l": G1, "a": G1, "b_g1": G1, "b_g2": G2}


class KeyBases:
    """Bases by section. Thread-safe: `tabulate` replaces whole sections. All work runs on the host's device."""

    def __init__(
        self,
        parameters: Parameters,
        matrices: Matrices,
        wires: Wires,
        store: TableStore | None,
        table_bytes: int,
        threads: int,
    ) -> None:
        """With the tables that `table_bytes` hold where the store has them."""
        self._parameters, self._store = parameters, store
        self._not_kept: dict[str, TablesNotKept] = {}
        self._sections = _sections(parameters, matrices, wires)
        wanted, plain = (choose(self._sections, memory) for memory in (table_bytes, 0))
        with kernels.on(kernels.host()):
            self._bases = {
                name: FixedBases.of(self._ready(name, wanted[name], plain[name], threads)) for name in _GROUPS
            }

    def __getitem__(self, name: str) -> FixedBases:
        return self._bases[name]

    @property
    def nbytes(self) -> int:
        """Memory of all rows."""
        return sum(bases.nbytes for bases in self._bases.values())

    def planned_nbytes(self, table_bytes: int) -> int:
        """The same once the tables are made that `table_bytes` hold."""
        return sum(layout.nbytes for layout in choose(self._sections, table_bytes).values())

    @property
    def tabulated(self) -> bool:
        """Whether any section has tables."""
        return any(bases.layout.fixed for bases in self._bases.values())

    def refuse_unkept(self) -> None:
        """Raise TablesNotKept, with its first cause, where rows of a section are not in the store."""
        for error in self._not_kept.values():
            raise error

    def tabulate(self, table_bytes: int, made: Callable[[float], None] | None, threads: int) -> None:
        """See `ProvingKey.tabulate`."""
        wanted = choose(self._sections, table_bytes)
        missing = [name for name in _GROUPS if self._bases[name].layout != wanted[name]]
        work, done = sum(wanted[name].nbytes for name in missing), 0
        say = made or (lambda _: None)
        for name in sorted(missing, key=lambda name: wanted[name].nbytes):
            layout, before = wanted[name], done

            def told(part: float, layout: Layout = layout, before: int = before) -> None:
                say((before + part * layout.nbytes) / work)

            told(0.0)
            with kernels.on(kernels.host()):
                self._bases[name] = FixedBases.of(self._made(name, layout, told, threads))
            self._not_kept.pop(name, None)
            told(1.0)
            done += layout.nbytes

    def _ready(self, name: str, wanted: Layout, plain: Layout, threads: int) -> Kept:
        """The rows of a section, with tables or without, as they are found; else made without, by one process: memory
        that is mapped is shared, and so worth waiting for another's."""
        for layout in dict.fromkeys([wanted, plain]) if self._store else ():
            found = self._store and self._store.find(self._parameters.digest(), name, layout)
            if found:
                return found
        try:
            return self._made(name, plain, lambda _: None, threads)
        except TablesNotKept as error:
            log.warning("bases not kept: %s", error)
            # a new one: `error` holds frames, and with them rows
            self._not_kept[name] = TablesNotKept(error.message, field=error.field)
            return kept(plain, _Joined.of(self._parameters, name), threads)

    def _made(self, name: str, layout: Layout, told: Told | None, threads: int) -> Kept:
        """On disk where there is a store. Raises TablesNotKept."""
        data = _Joined.of(self._parameters, name)
        if self._store:
            return self._store.make(self._parameters.digest(), name, layout, data, told, threads)
        return kept(layout, data, threads)


@dataclass(frozen=True)
class _Joined:
    """The points of a section of a key, and those that are added to it."""

    points: Bytes
    further: Bytes

    @classmethod
    def of(cls, parameters: Parameters, name: str) -> _Joined:
        vk, points = parameters.vk, getattr(parameters, name)
        further = {
            "h": [],
            "l": [vk.delta_g1],
            "a": [vk.alpha_g1, vk.delta_g1],
            "b_g1": [vk.beta_g1, vk.delta_g1],
            "b_g2": [vk.beta_g2, vk.delta_g2],
        }
        added = np.frombuffer(b"".join(further[name]), np.uint8)
        return cls(points, added.reshape(-1, points.shape[1]))

    def __len__(self) -> int:
        return len(self.points) + len(self.further)

    def __getitem__(self, part: slice) -> Bytes:
        start, stop, _ = part.indices(len(self))
        behind = [max(0, place - len(self.points)) for place in (start, stop)]
        return np.concatenate([self.points[start:stop], self.further[slice(*behind)]])


def _sections(parameters: Parameters, matrices: Matrices, wires: Wires) -> dict[str, Section]:
    """What the sums of each section are like: wires that are 0 or 1 cost hardly anything."""
    full = np.concatenate([np.ones(matrices.num_inputs, np.bool_), ~matrices.bit_mask])
    of_wires = {"l": full[matrices.num_inputs :], "a": full[wires.a], "b_g1": full[wires.b], "b_g2": full[wires.b]}
    counts = {name: int(np.count_nonzero(flags)) for name, flags in of_wires.items()} | {"h": matrices.domain}
    return {name: Section(group, len(_Joined.of(parameters, name)), counts[name]) for name, group in _GROUPS.items()}
