"""What the algebra's tests share: scalars worth trying, points as bytes, and a second opinion by py-arkworks."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import py_arkworks_bls12381 as arkworks
import pytest

from prover.algebra.curve import G1, G2, Group
from prover.algebra.fields import FR
from prover.algebra.limbs import Bytes
from prover.reference import curve as reference

#: scalars at which something changes: zero, one, the halves that signed digits fold, the largest
EDGE_SCALARS = (0, 1, 2, FR.p - 1, FR.p - 2, FR.p // 2, FR.p // 2 + 1, (1 << 254) - 1, 1 << 128)


class Curve:
    """One group, its oracle in plain integers, and its peer."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.generator = reference.G1_GENERATOR if group is G1 else reference.G2_GENERATOR
        self._peer = arkworks.G1Point if group is G1 else arkworks.G2Point

    def bytes_of(self, points: Sequence[reference.Point]) -> Bytes:
        data = b"".join(reference.to_bytes(p, self.group.degree) for p in points)
        return np.frombuffer(data, np.uint8).reshape(-1, self.group.size)

    def points_of(self, data: Bytes) -> list[reference.Point]:
        return [reference.from_bytes(row.tobytes()) for row in data]

    def random_points(self, rng: random.Random, count: int) -> list[reference.Point]:
        return [reference.multiply(self.generator, rng.randrange(1, FR.p)) for _ in range(count)]

    def progression(self, count: int) -> Bytes:
        """G, G + Q, G + 2 Q, ... by the peer: many points in little time."""
        point, step = self._peer(), self._peer() * arkworks.Scalar(987654321)
        rows = []
        for _ in range(count):
            rows.append(self._swapped(bytes(point.to_xy_bytes_be())))
            point = point + step
        return np.frombuffer(b"".join(rows), np.uint8).reshape(-1, self.group.size)

    def peer_msm(self, data: Bytes, scalars: Sequence[int]) -> bytes:
        """The same sum by py-arkworks; no base may be infinity."""
        bases = [self._peer.from_xy_bytes_unchecked_be(self._swapped(row.tobytes())) for row in data]
        factors = [arkworks.Scalar.from_le_bytes(s.to_bytes(32, "little")) for s in scalars]
        return self._swapped(bytes(self._peer.multiexp_unchecked(bases, factors).to_xy_bytes_be()))

    def _swapped(self, data: bytes) -> bytes:
        """bellman writes c1 before c0 and flags infinity, py-arkworks c0 before c1 and infinity as zeros."""
        if not any(data):
            return bytes([0x40]) + data[1:]
        if self.group is G1:
            return data
        return data[48:96] + data[:48] + data[144:] + data[96:144]


@pytest.fixture(params=[G1, G2], ids=["G1", "G2"], scope="module")
def curve(request: pytest.FixtureRequest) -> Curve:
    return Curve(request.param)


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> random.Random:
    """Seeded by the test's name, so that a failure repeats."""
    return random.Random(request.node.nodeid)
