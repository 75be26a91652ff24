"""Points of key files decoded by py-arkworks, and the check of many points at once.

A key file holds finite points, uncompressed and big-endian: x | y in G1, x.c1 | x.c0 | y.c1 | y.c0 in G2, no flags.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from py_arkworks_bls12381 import G1Point, G2Point

from prover.groth16.errors import KeyFileDamaged

Group = Literal["G1", "G2"]
Point = G1Point | G2Point
POINT_BYTES: dict[Group, int] = {"G1": 96, "G2": 192}
#: with b buckets, one round of the subgroup check misses a bad point with probability at most 1 / b
_MISS_BITS = 64


def g1_point(data: bytes, place: str) -> G1Point:
    """Decode and check one G1 point (96 bytes); KeyFileDamaged names `place`."""
    point = _g1_on_curve(data, place)
    _require_subgroup(point, place)
    return point


def g2_point(data: bytes, place: str) -> G2Point:
    """Decode and check one G2 point (192 bytes); KeyFileDamaged names `place`."""
    point = _g2_on_curve(data, place)
    _require_subgroup(point, place)
    return point


def _g1_on_curve(data: bytes, place: str) -> G1Point:
    try:
        point = G1Point.from_xy_bytes_unchecked_be(data)
    except ValueError:
        raise KeyFileDamaged("not a point of the curve", field=place) from None
    _require_finite(data, place)
    return point


def _g2_on_curve(data: bytes, place: str) -> G2Point:
    try:
        point = G2Point.from_xy_bytes_unchecked_be(data[48:96] + data[:48] + data[144:] + data[96:144])
    except ValueError:
        raise KeyFileDamaged("not a point of the curve", field=place) from None
    _require_finite(data, place)
    return point


def _require_finite(data: bytes, place: str) -> None:
    if not any(data):
        raise KeyFileDamaged("the point at infinity", field=place)


def _require_subgroup(point: Point, place: str) -> None:
    if not point.is_in_subgroup():
        raise KeyFileDamaged("the point is not in the subgroup of order r", field=place)


def check_points(
    points: NDArray[np.uint8], group: Group, section: str, progress: Callable[[int], None] | None = None
) -> None:
    """Check that each row of `points` (uint8[n, 96 | 192]) is finite, on the curve and in the subgroup of order r.

    The subgroup is checked on random sums of the points: each round throws them into b buckets by fresh secret
    randomness and checks the sums. Wherever the other points fell, at most one bucket can hide a point outside the
    subgroup, so a round misses it with probability at most 1 / b, and all rounds together with at most 2^-64.
    KeyFileDamaged names the section and the first bad point. `progress` is told the points done since its last call.
    """
    decode: Callable[[bytes, str], Point] = _g1_on_curve if group == "G1" else _g2_on_curve
    decoded = [decode(row.tobytes(), f"{section}[{i}]") for i, row in enumerate(points)]
    bits = max(1, min(11, len(decoded).bit_length() - 5))
    rounds = -(-_MISS_BITS // bits)
    if rounds << bits >= len(decoded):
        _locate_outsider(decoded, section)
        return
    for done in range(rounds):
        if not _round_is_sound(decoded, group, bits):
            _locate_outsider(decoded, section)
        if progress:
            progress(len(decoded) * (done + 1) // rounds - len(decoded) * done // rounds)


def _round_is_sound(decoded: list[Point], group: Group, bits: int) -> bool:
    """Whether the sum of every bucket, of 2^bits at random, is in the subgroup."""
    identity = (G1Point if group == "G1" else G2Point).identity()
    sums: list[Any] = [identity] * (1 << bits)
    raw = np.frombuffer(secrets.token_bytes(2 * len(decoded)), dtype="<u2")
    for bucket, point in zip((raw & ((1 << bits) - 1)).tolist(), decoded, strict=True):
        sums[bucket] += point
    return all(total.is_in_subgroup() for total in sums)


def _locate_outsider(decoded: list[Point], section: str) -> None:
    for i, point in enumerate(decoded):
        _require_subgroup(point, f"{section}[{i}]")
