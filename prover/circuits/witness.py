"""The witness of FallbackPoSt without a constraint system: every value in the circuit's order of allocation.

Poseidon dominates. Within one witness each hash is computed once: paths of one sector meet towards the root, and
WinningPoSt repeats the sector's commitments for each challenge.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from prover.circuits.errors import InstanceMismatch
from prover.circuits.insertion import insert
from prover.circuits.por import index_bits
from prover.filecoin.poseidon import poseidon
from prover.filecoin.post import CircuitSector, PostInstance
from prover.filecoin.shapes import PostShape
from prover.filecoin.vanilla import MerkleProof

T = TypeVar("T")
_SIZE = 32  # bytes of a field element


@dataclass(frozen=True, slots=True)
class Witness:
    """`inputs` uint8[num_inputs, 32], ONE first, and `aux` uint8[num_aux, 32]; canonical, little-endian."""

    inputs: NDArray[np.uint8]
    aux: NDArray[np.uint8]


def fallback_post_witness(shape: PostShape, instance: PostInstance) -> Witness:
    """The witness of an instance, satisfying or not. Raises InstanceMismatch when it has another shape."""
    check_shape(shape, instance)
    values = _Values()
    for sector in instance.sectors:
        _add_sector(values, sector)
    return values.witness()


def path_witness(path: MerkleProof, *, root: int | None = None, public_root: bool = False) -> Witness:
    """The witness of a path alone (`por.PathToRoot`), its root allocated there when given."""
    values = _Values()
    _add_path(values, path)
    if root is not None:
        values.add(root)
        if public_root:
            values.inputs.append(root)
    return values.witness()


def insertion_values(element: T, index: int, siblings: Sequence[T], zero: T, one: T) -> list[T]:
    """What `insertion.insert` allocates, in order; `zero` and `one` stand for those field elements."""
    sources = (zero, one, element, *siblings)
    return [sources[i] for i in _insertion_sources(len(siblings) + 1, index)]


def check_shape(shape: PostShape, instance: PostInstance) -> None:
    """Raises InstanceMismatch unless the instance has the sectors, challenges and path levels of the circuit."""
    _expect(len(instance.sectors), shape.sectors, "sectors")
    for i, sector in enumerate(instance.sectors):
        _expect(len(sector.paths), shape.challenges, f"sectors[{i}].paths")
        for j, path in enumerate(sector.paths):
            arities = tuple(len(level.siblings) + 1 for level in path.path)
            if arities != shape.sector.arities:
                raise InstanceMismatch(
                    f"arities {arities}, not {shape.sector.arities}", field=f"sectors[{i}].paths[{j}]"
                )


def _expect(found: int, wanted: int, name: str) -> None:
    if found != wanted:
        raise InstanceMismatch(f"{found} given, the circuit has {wanted}", field=name)


def _add_sector(values: _Values, sector: CircuitSector) -> None:
    values.add(sector.comm_r_last, sector.comm_c, sector.comm_r)
    values.inputs.append(sector.comm_r)
    values.hash((sector.comm_c, sector.comm_r_last))
    for path in sector.paths:
        _add_path(values, path)


def _add_path(values: _Values, path: MerkleProof) -> None:
    """Leaf, then for each level index bits, siblings, insertion, hash; the leaf index is an input."""
    values.add(path.leaf)
    node, leaf_index, shift = path.leaf, 0, 0
    for level in path.path:
        arity, index = len(level.siblings) + 1, level.index
        values.add_bits(index, index_bits(arity))
        values.add(*level.siblings)
        values.add_insertion(node, index, level.siblings)
        node = values.hash((*level.siblings[:index], node, *level.siblings[index:]))
        leaf_index |= index << shift
        shift += index_bits(arity)
    values.inputs.append(leaf_index)


@dataclass(slots=True)
class _Values:
    """Field elements as bytes, in the order of allocation, and the hashes made so far."""

    inputs: list[int] = field(default_factory=lambda: [1])
    _parts: list[bytes] = field(default_factory=list)
    _hashes: dict[tuple[int, ...], tuple[int, bytes]] = field(default_factory=dict)

    def add(self, *values: int) -> None:
        self._parts += map(_encode, values)

    def add_bits(self, value: int, count: int) -> None:
        self._parts += (_BITS[value >> i & 1] for i in range(count))

    def add_insertion(self, element: int, index: int, siblings: Sequence[int]) -> None:
        encoded = [_encode(value) for value in siblings]
        self._parts += insertion_values(_encode(element), index, encoded, *_BITS)

    def hash(self, inputs: tuple[int, ...]) -> int:
        """Adds what the Poseidon gadget allocates; returns the digest."""
        found = self._hashes.get(inputs)
        if found is None:
            trace = poseidon(len(inputs)).trace(inputs)
            found = self._hashes[inputs] = trace[-1], b"".join(map(_encode, trace))
        self._parts.append(found[1])
        return found[0]

    def witness(self) -> Witness:
        return Witness(_elements(map(_encode, self.inputs)), _elements(self._parts))


def _encode(value: int) -> bytes:
    return value.to_bytes(_SIZE, "little")


def _elements(parts: Iterable[bytes]) -> NDArray[np.uint8]:
    return np.frombuffer(b"".join(parts), np.uint8).reshape(-1, _SIZE)


_BITS = (_encode(0), _encode(1))


@lru_cache
def _insertion_sources(arity: int, index: int) -> tuple[int, ...]:
    """For each allocation of the insertion gadget its source: 0 zero, 1 one, 2 the element, 3.. the siblings."""
    sources = _Sources()
    children = insert(sources, 2, [index >> i & 1 for i in range(index_bits(arity))], range(3, arity + 2))
    assert children[index] == 2
    return tuple(sources.allocated)


class _Sources:
    """The selector over sources; the bits are sources 0 and 1 too."""

    def __init__(self) -> None:
        self.allocated: list[int] = []

    def pick(self, condition: int, x: int, y: int) -> int:
        return self._allocate(x if condition else y)

    def neither(self, a: int, b: int) -> int:
        return self._allocate(1 - max(a, b))

    def both(self, a: int, b: int) -> int:
        return self._allocate(min(a, b))

    def _allocate(self, source: int) -> int:
        self.allocated.append(source)
        return source
