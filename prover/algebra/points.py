"""Points between bytes and residues.

Bytes are bellman's uncompressed form, uint8[n, 96 or 192]: big-endian x | y, in G2 c1 before c0; infinity is 0x40 and
zeros. Rows are affine points as float32[n, 64 or 128]: the residues of x, then those of y, index [2k, 2, e].
Projective rows are float32[n, 96 or 192], index [2k, 3, e].
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from prover.algebra.curve import Group
from prover.algebra.fields import FP, Bools
from prover.algebra.limbs import Bytes
from prover.errors import InvalidInput

Rows = npt.NDArray[np.float32]

_INFINITY: Final = 0x40
_FLAGS: Final = 0xE0


class InvalidPoint(InvalidInput):
    """A point is not in the uncompressed form of its group."""

    code = "invalid_point"


def infinities(data: Bytes) -> Bools:
    """Which points are at infinity."""
    result: Bools = (data[:, 0] & _INFINITY) != 0
    return result


def coordinates(group: Group, data: Bytes) -> list[Bytes]:
    """The coordinates' components x.c0, x.c1, y.c0, y.c1 (G1: x, y) as little-endian bytes uint8[n, 48]; flags
    removed."""
    parts = data.reshape(len(data), 2, group.degree, FP.size)[:, :, ::-1, ::-1].copy()
    parts[:, 0, -1, -1] &= 0xFF ^ _FLAGS
    return [parts[:, i, j] for i in range(2) for j in range(group.degree)]


def check(group: Group, data: Bytes, name: str, first: int = 0) -> None:
    """Raise InvalidPoint, or NonCanonical for a coordinate, where bytes are not the uncompressed form. The curve
    equation and the subgroup are not checked: that is the key file's reader's choice. The data begin at point
    `first`."""
    if data.ndim != 2 or data.shape[1] != group.size:
        raise InvalidPoint(f"a point of {group.name} has {group.size} bytes", field=name)
    bad = (data[:, 0] & (_FLAGS ^ _INFINITY) != 0) | (infinities(data) & (data[:, 1:] != 0).any(axis=1))
    if bad.any():
        place = f"{name}[{first + int(np.argmax(bad))}]"
        raise InvalidPoint("flags of a compressed point, or infinity that is not zero", field=place)
    for part in coordinates(group, data):
        FP.check_canonical(part, name, first)


def to_rows(group: Group, data: Bytes, threads: int = 1) -> Rows:
    """Uncompressed bytes -> affine rows; infinity becomes (0, 1), which is what `curve.add_affine` wants of it."""
    encoded = [FP.encode(coordinate, threads) for coordinate in coordinates(group, data)]
    rows = np.ascontiguousarray(np.stack(encoded, axis=1).transpose(2, 0, 1)).reshape(len(data), group.affine_columns)
    rows[infinities(data)] = infinity_row(group)
    return rows


def infinity_row(group: Group) -> Rows:
    """The affine row (0, 1) that stands for infinity."""
    return group.identity[:, :2].astype(np.float32).reshape(-1)


def of_generator(group: Group) -> Bytes:
    """The standard generator, uncompressed: uint8[96 or 192]."""
    x, y = ([FP.bytes_of([c]) for c in coordinate] for coordinate in group.generator)
    result: Bytes = from_affine(group, x, y, np.zeros(1, bool))[0]
    return result


def from_affine(group: Group, x: list[Bytes], y: list[Bytes], at_infinity: Bools) -> Bytes:
    """Components c0, c1 of x and y as little-endian bytes -> uncompressed bytes."""
    parts = np.stack([*x[::-1], *y[::-1]], axis=1)[:, :, ::-1]
    data = np.ascontiguousarray(parts).reshape(len(parts), group.size)
    data[at_infinity] = 0
    data[at_infinity, 0] = _INFINITY
    return data
