"""Verifying keys and parameters in bellman's file format.

`.vk`: alpha_g1 | beta_g1 | beta_g2 | gamma_g2 | delta_g1 | delta_g2 | u32 BE count | ic. `.params`: the same, then for
each of h, l, a, b_g1, b_g2 a u32 BE count and the points. Points are finite, uncompressed, big-endian, without flags:
x | y in G1 (96 bytes), x.c1 | x.c0 | y.c1 | y.c0 in G2 (192 bytes). There is no other header, so a file must have
exactly the size that its counts give; that is checked before any memory is taken. `Parameters.check` looks at the
points.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from prover.groth16.errors import KeyFileDamaged
from prover.groth16.points import POINT_BYTES, Group, check_points

Bytes = NDArray[np.uint8]
_HEAD: tuple[tuple[str, Group], ...] = (
    ("alpha_g1", "G1"),
    ("beta_g1", "G1"),
    ("beta_g2", "G2"),
    ("gamma_g2", "G2"),
    ("delta_g1", "G1"),
    ("delta_g2", "G2"),
)
#: the sections of the parameters behind the verifying key, in the file's order
SECTIONS: tuple[tuple[str, Group], ...] = (("h", "G1"), ("l", "G1"), ("a", "G1"), ("b_g1", "G1"), ("b_g2", "G2"))
_COUNT_BYTES = 4


@dataclass(frozen=True, eq=False)
class VerifyingKey:
    """What a verifier needs; points as they lie in the file; ic is uint8[inputs, 96], the constant one first."""

    alpha_g1: bytes
    beta_g1: bytes
    beta_g2: bytes
    gamma_g2: bytes
    delta_g1: bytes
    delta_g2: bytes
    ic: Bytes

    @classmethod
    def parse(cls, data: bytes) -> VerifyingKey:
        """Read a whole `.vk` file; KeyFileDamaged when a count or the size is wrong."""
        reader = _Reader(np.frombuffer(data, dtype=np.uint8))
        key = cls._read(reader)
        reader.end()
        return key

    @classmethod
    def _read(cls, reader: _Reader) -> VerifyingKey:
        head = {name: reader.take(name, POINT_BYTES[group]).tobytes() for name, group in _HEAD}
        return cls(**head, ic=reader.points("ic", "G1"))

    def to_bytes(self) -> bytes:
        """The `.vk` file."""
        return b"".join(getattr(self, name) for name, _ in _HEAD) + _counted(self.ic)

    @property
    def num_inputs(self) -> int:
        """The number of inputs, the constant one included."""
        return len(self.ic)


@dataclass(frozen=True, eq=False)
class Parameters:
    """A proving key: the verifying key and the points of each section, uint8[n, 96] in G1 and uint8[n, 192] in G2.

    h_i = tau^i t(tau) / delta for i < m - 1; l_j of the aux wires = (beta u_j + alpha v_j + w_j) / delta; a_j = u_j and
    b_j = v_j of the inputs, then the aux wires, without the wires whose polynomial is zero.
    """

    vk: VerifyingKey
    h: Bytes
    l: Bytes  # noqa: E741  (the format's own name)
    a: Bytes
    b_g1: Bytes
    b_g2: Bytes
    path: Path | None = field(default=None, compare=False)

    @classmethod
    def open(cls, path: Path) -> Parameters:
        """Map a `.params` file; the sections are views of it. KeyFileDamaged names the section and the place."""
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size == 0:
                raise KeyFileDamaged("the file is empty", field=path.name)
            mapped = np.memmap(file, dtype=np.uint8, mode="r")
        reader = _Reader(mapped.view(np.ndarray))
        vk = VerifyingKey._read(reader)
        sections = {name: reader.points(name, group) for name, group in SECTIONS}
        reader.end()
        return cls(vk=vk, path=path, **sections)

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return len(self.vk.to_bytes()) + sum(_COUNT_BYTES + points.size for _, _, points in self.sections())

    def sections(self) -> Iterator[tuple[str, Group, Bytes]]:
        """Name, group and points of each section behind the verifying key."""
        for name, group in SECTIONS:
            yield name, group, getattr(self, name)

    def point_count(self) -> int:
        """How many points `check` looks at."""
        return len(_HEAD) + len(self.vk.ic) + sum(len(points) for _, _, points in self.sections())

    def check(self, progress: Callable[[int], None] | None = None) -> None:
        """Check every point: finite, on its curve, in the subgroup. KeyFileDamaged names the section and the index."""
        for name, group in _HEAD:
            check_points(np.frombuffer(getattr(self.vk, name), dtype=np.uint8)[None], group, name, progress)
        check_points(self.vk.ic, "G1", "ic", progress)
        for name, group, points in self.sections():
            check_points(points, group, name, progress)

    def digest(self) -> str:
        """The digest of the file as parameters.json has it: the first 16 bytes of its BLAKE2b-512, in hex; made
        once, of what was in the file then."""
        return self._digest

    @functools.cached_property
    def _digest(self) -> str:
        return digest(self.chunks())

    def section_digests(self) -> dict[str, str]:
        """The same digest of each section's points alone, and of the verifying key (`vk`)."""
        own = {name: digest([points.data]) for name, _, points in self.sections()}
        return {"vk": digest([self.vk.to_bytes()]), **own}

    def chunks(self) -> Iterator[bytes | memoryview]:
        """The bytes of the file, piece by piece."""
        yield self.vk.to_bytes()
        for _, _, points in self.sections():
            yield len(points).to_bytes(_COUNT_BYTES, "big")
            yield np.ascontiguousarray(points).data

    def write_to(self, file: BinaryIO) -> None:
        """Write the `.params` file; `store.KeyStore.add` makes that atomic."""
        for chunk in self.chunks():
            file.write(chunk)


assert {f.name for f in fields(Parameters)} == {"vk", "path", *(name for name, _ in SECTIONS)}


def digest(chunks: Iterator[bytes | memoryview] | list[bytes] | list[memoryview]) -> str:
    """The first 16 bytes of the BLAKE2b-512 of the chunks, in hex."""
    state = hashlib.blake2b()
    for chunk in chunks:
        state.update(chunk)
    return state.hexdigest()[:32]


def _counted(points: Bytes) -> bytes:
    return len(points).to_bytes(_COUNT_BYTES, "big") + points.tobytes()


class _Reader:
    """Takes views of a file's bytes in order, and refuses what lies beyond its end."""

    def __init__(self, data: Bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, name: str, size: int) -> Bytes:
        left = len(self._data) - self._at
        if size > left:
            raise KeyFileDamaged(f"needs {size} bytes at byte {self._at}, but the file has {left} left", field=name)
        self._at += size
        return self._data[self._at - size : self._at]

    def points(self, name: str, group: Group) -> Bytes:
        count = int.from_bytes(self.take(name, _COUNT_BYTES).tobytes(), "big")
        return self.take(name, count * POINT_BYTES[group]).reshape(count, POINT_BYTES[group])

    def end(self) -> None:
        if self._at != len(self._data):
            raise KeyFileDamaged(f"{len(self._data) - self._at} bytes too many after byte {self._at}", field="file")
