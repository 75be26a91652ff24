"""The values that circuits allocate, in order, without a constraint system.

Poseidon and SHA-256 dominate. Within one witness each Poseidon hash is computed once: paths of one tree meet towards
the root. The bits of SHA-256 are left open until all messages are known, and then made for all of them at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from itertools import groupby
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from prover.circuits.insertion import insert
from prover.circuits.num import CAPACITY, NUM_BITS
from prover.circuits.por import index_bits
from prover.circuits.sha256_trace import Bits, MessageTrace, message_trace
from prover.filecoin.poseidon import poseidon

T = TypeVar("T")
_SIZE = 32  # bytes of a field element
#: the bits of a number in a message: 255 and a 0 at the top of the last byte
NUMBER_PATTERN = "v" * 248 + "0" + "v" * 7
#: two numbers: the children of a node
PAIR_PATTERN = 2 * NUMBER_PATTERN


@dataclass(frozen=True, slots=True)
class Witness:
    """Canonical values, little-endian: `columns` uint8[num_inputs + num_aux, 32], inputs with ONE first, then aux."""

    columns: NDArray[np.uint8]
    num_inputs: int

    @property
    def inputs(self) -> NDArray[np.uint8]:
        """uint8[num_inputs, 32]."""
        return self.columns[: self.num_inputs]

    @property
    def aux(self) -> NDArray[np.uint8]:
        """uint8[num_aux, 32]."""
        return self.columns[self.num_inputs :]


@dataclass(slots=True)
class _Open:
    """Allocations of a message that are not made yet: row `number` of the bits of its trace."""

    trace: MessageTrace
    number: int

    @property
    def num_aux(self) -> int:
        return self.trace.num_aux


@dataclass(slots=True)
class Values:
    """Field elements as bytes, in the order of allocation, and the hashes made so far."""

    inputs: list[int] = field(default_factory=lambda: [1])
    _parts: list[bytes | Bits | _Open] = field(default_factory=list)
    _hashes: dict[tuple[int | None, tuple[int, ...]], tuple[int, bytes]] = field(default_factory=dict)
    _messages: dict[MessageTrace, list[bytes]] = field(default_factory=dict)

    def add(self, *values: int) -> None:
        """Field elements, canonical."""
        self._parts += map(_encode, values)

    def add_public(self, value: int) -> None:
        """A field element that is made a public input (`num.inputize`)."""
        self.add(value)
        self.inputs.append(value)

    def add_bits(self, value: int, count: int) -> None:
        """The lowest bits of a number, least significant first."""
        data = np.frombuffer((value & ((1 << count) - 1)).to_bytes(-(-count // 8), "little"), np.uint8)
        self._parts.append(np.unpackbits(data, count=count, bitorder="little"))

    def add_insertion(self, element: int, index: int, siblings: Sequence[int]) -> None:
        """What `insertion.insert` allocates."""
        encoded = [_encode(value) for value in siblings]
        self._parts += insertion_values(_encode(element), index, encoded, *_BITS)

    def hash(self, inputs: tuple[int, ...], tag: int | None = None) -> int:
        """Adds what `poseidon.PoseidonHash` allocates; returns the digest."""
        found = self._hashes.get((tag, inputs))
        if found is None:
            trace = poseidon(len(inputs)).trace(inputs, tag)
            found = self._hashes[tag, inputs] = trace[-1], b"".join(map(_encode, trace))
        self._parts.append(found[1])
        return found[0]

    def sha256_number(self, pattern: str, message: bytes) -> int:
        """Adds what `sha256.sha256_number` allocates for a message of the pattern; returns the digest.

        The pattern is that of `sha256_trace.message_trace`.
        """
        trace = message_trace(pattern)
        messages = self._messages.setdefault(trace, [])
        self._parts.append(_Open(trace, len(messages)))
        messages.append(message)
        number = sha256_digest(message)
        self.add(number)
        return number

    def sha256_pair(self, left: int, right: int) -> int:
        """Adds what `sha256.Sha256Pair` allocates; returns the digest."""
        self.add_bits(left, NUM_BITS)
        self.add_bits(right, NUM_BITS)
        return self.sha256_number(PAIR_PATTERN, _encode(left) + _encode(right))

    def witness(self) -> Witness:
        """All values so far."""
        first = len(self.inputs)
        columns = np.zeros((first + sum(map(_length, self._parts)), _SIZE), np.uint8)
        columns[:first] = _elements(map(_encode, self.inputs))
        traces = {trace: trace.bits(messages) for trace, messages in self._messages.items()}
        start = first
        for kind, group in groupby(self._parts, type):
            for part in _joined(group) if kind is bytes else group:
                end = start + _length(part)
                _fill(columns[start:end], part, traces)
                start = end
        return Witness(columns, first)


def _joined(parts: Iterable[bytes | Bits | _Open]) -> list[bytes]:
    return [b"".join(part for part in parts if isinstance(part, bytes))]


def _length(part: bytes | Bits | _Open) -> int:
    """Allocations of a part."""
    if isinstance(part, bytes):
        return len(part) // _SIZE
    return part.num_aux if isinstance(part, _Open) else len(part)


def _fill(out: NDArray[np.uint8], part: bytes | Bits | _Open, traces: dict[MessageTrace, Bits]) -> None:
    if isinstance(part, bytes):
        out[:] = _elements([part])
    else:
        out[:, 0] = traces[part.trace][part.number] if isinstance(part, _Open) else part


def prepare_hashes(arities: Iterable[int], patterns: Iterable[str] = ()) -> None:
    """Makes what hashes need once a process: the constants of Poseidon, and the places of SHA-256's allocations."""
    for arity in set(arities):
        poseidon(arity)
    for pattern in patterns:
        message_trace(pattern)


def sha256_digest(message: bytes) -> int:
    """The digest as a number: little-endian, modulo 2^254."""
    return int.from_bytes(sha256(message).digest(), "little") & ((1 << CAPACITY) - 1)


def insertion_values(element: T, index: int, siblings: Sequence[T], zero: T, one: T) -> list[T]:
    """What `insertion.insert` allocates, in order; `zero` and `one` stand for those field elements."""
    sources = (zero, one, element, *siblings)
    return [sources[i] for i in _insertion_sources(len(siblings) + 1, index)]


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
