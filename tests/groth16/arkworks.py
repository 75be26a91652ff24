"""Multiples of the generators by another library: the oracle of `prover.algebra.multiples`."""

from __future__ import annotations

import numpy as np
from py_arkworks_bls12381 import G1Point, G2Point, Scalar

from prover.algebra.curve import G1, Group
from prover.groth16.qap import Bytes


def by_arkworks(group: Group, scalars: Bytes) -> Bytes:
    """scalar * generator for each row, in the bytes of a key file."""
    generator = G1Point() if group is G1 else G2Point()
    rows = [bytes((generator * Scalar.from_le_bytes(row.tobytes())).to_xy_bytes_be()) for row in scalars]
    if group is not G1:
        rows = [row[48:96] + row[:48] + row[144:] + row[96:144] for row in rows]
    return np.frombuffer(b"".join(rows), dtype=np.uint8).reshape(len(rows), -1)
