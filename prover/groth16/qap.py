"""From constraints to polynomials: the wires of each section of the key, and all polynomials at the point tau.

Row i of the matrices, then the rows x * 0 = 0 of the inputs, belong to the i-th power of the domain's root of unity;
the polynomials u_j, v_j, w_j of wire j interpolate its column of A, B, C. Wires: inputs first (ONE is 0), then aux.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prover.algebra.constants import R, root_of_unity
from prover.circuits.matrices import Matrices, SparseRows
from prover.groth16.errors import ScalarsInvalid

Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class Wires:
    """Which wires the sections a and b hold, intp[n] in the order of their points."""

    a: NDArray[np.intp]
    b: NDArray[np.intp]

    @classmethod
    def of(cls, matrices: Matrices) -> Wires:
        """All inputs and the aux that occur in A; the inputs and aux that occur in B."""
        inputs = np.ones(matrices.num_inputs, dtype=np.bool_)
        return cls(
            a=np.flatnonzero(np.concatenate([inputs, matrices.a_aux_mask])),
            b=np.flatnonzero(np.concatenate([matrices.b_input_mask, matrices.b_aux_mask])),
        )


@dataclass(frozen=True)
class Evaluations:
    """The polynomials of each wire at tau, canonical integers, and t(tau) = tau^m - 1 for the domain's size m."""

    u: list[int]
    v: list[int]
    w: list[int]
    vanishing: int


def evaluate(matrices: Matrices, tau: int) -> Evaluations:
    """All u_j, v_j, w_j at tau. ScalarsInvalid when tau is in the domain (which has no point of its own then)."""
    lagrange, vanishing = _lagrange(matrices.domain, matrices.num_rows, tau)
    coefficients = _signed_coefficients(matrices.coefs)
    columns = [
        _column_sums(matrix, matrices.num_columns, coefficients, lagrange)
        for matrix in (matrices.a, matrices.b, matrices.c)
    ]
    for i in range(matrices.num_inputs):
        columns[0][i] += lagrange[matrices.num_constraints + i]
    u, v, w = ([value % R for value in column] for column in columns)
    return Evaluations(u, v, w, vanishing)


def _lagrange(domain: int, count: int, tau: int) -> tuple[list[int], int]:
    """L_i(tau) = t(tau) / m * w^i / (tau - w^i) for i < count, and t(tau)."""
    root = root_of_unity(domain.bit_length() - 1)
    vanishing = (pow(tau, domain, R) - 1) % R
    if not vanishing:
        raise ScalarsInvalid("tau is a root of unity of the circuit's domain", field="tau")
    powers = power_series(1, root, count)
    factor = vanishing * pow(domain, -1, R) % R
    inverses = _inverses([tau - power for power in powers])
    return [factor * power % R * inverse % R for power, inverse in zip(powers, inverses, strict=True)], vanishing


def power_series(first: int, ratio: int, count: int) -> list[int]:
    """first * ratio^i for i < count."""
    series = []
    for _ in range(count):
        series.append(first)
        first = first * ratio % R
    return series


def _inverses(values: Sequence[int]) -> list[int]:
    """The inverses mod R, none of the values being 0, by one inversion and three products each."""
    prefix = [1]
    for value in values:
        prefix.append(prefix[-1] * value % R)
    inverse = pow(prefix.pop(), -1, R)
    inverses = []
    for value, before in zip(reversed(values), reversed(prefix), strict=True):
        inverses.append(inverse * before % R)
        inverse = inverse * value % R
    return inverses[::-1]


def _signed_coefficients(coefs: NDArray[np.uint8]) -> list[int]:
    """The distinct coefficients, those above R / 2 as negative numbers: most are small, which makes products cheap."""
    values = [int.from_bytes(row.tobytes(), "little") for row in coefs]
    return [value - R if value > R // 2 else value for value in values]


def _column_sums(matrix: SparseRows, columns: int, coefficients: list[int], lagrange: list[int]) -> list[int]:
    """sum over rows i of matrix[i][j] * L_i for each column j, not reduced."""
    sums = [0] * columns
    rows = np.repeat(np.arange(len(matrix.indptr) - 1), np.diff(matrix.indptr))
    for row, column, number in zip(rows.tolist(), matrix.col.tolist(), matrix.coef.tolist(), strict=True):
        sums[column] += coefficients[number] * lagrange[row]
    return sums


def to_bytes(values: Sequence[int]) -> Bytes:
    """Canonical integers as uint8[n, 32], little-endian."""
    raw = b"".join([value.to_bytes(32, "little") for value in values])
    return np.frombuffer(raw, dtype=np.uint8).reshape(len(values), 32)
