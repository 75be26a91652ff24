"""The products a = A z, b = B z, c = C z of a circuit, and which of its rows do not hold.

Where most variables are bits, the rows of nothing but bits are computed on small integers, the others over Fr.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from prover.algebra.kernels import Residues
from prover.algebra.limbs import are_bits
from prover.circuits.bit_rows import BitRows, Rows, put
from prover.circuits.field_rows import FieldRows
from prover.circuits.matrices import Matrices, SparseRows
from prover.circuits.residues import unsatisfied


class Evaluation(NamedTuple):
    """a, b and c as residues float32[22, num_rows], and the numbers, ascending, of the rows in which a * b is not c."""

    a: Residues
    b: Residues
    c: Residues
    wrong: Rows


class Evaluator:
    """A circuit's matrices prepared for products. Immutable, safe to share between threads."""

    def __init__(self, matrices: Matrices) -> None:
        self._matrices = matrices
        self._bit_rows = BitRows(matrices) if matrices.bit_mask.mean() > 0.5 else None
        if self._bit_rows is None:
            self._field_rows = FieldRows(matrices)
            return
        others = ~self._bit_rows.small
        others[self._bit_rows.sums] = False
        rows = np.flatnonzero(others)
        self._columns, part = _sub_matrices(matrices, rows)
        self._field_rows = FieldRows(part)
        self._places = np.concatenate([rows, np.arange(matrices.num_constraints, matrices.num_rows)])

    def evaluate(self, z: NDArray[np.uint8], threads: int = 1) -> Evaluation:
        """The products with z = uint8[num_columns, 32], canonical (inputs, then aux)."""
        if self._bit_rows is None:
            return _of_field(self._field_rows, z, threads)
        bits = self._bit_rows.read(z)
        if bits is None:
            # some value that should be a bit is none: such a witness is refused, but its rows are to be named
            held = self._matrices.bit_mask & are_bits(z[self._matrices.num_inputs :])
            return Evaluator(replace(self._matrices, known_bits=held)).evaluate(z, threads)
        a, b, c = (np.empty((22, self._matrices.num_rows), np.float32) for _ in range(3))
        wrong = self._bit_rows.apply(bits, (a, b, c), threads)
        part = _of_field(self._field_rows, z[self._columns], threads)
        for out, values in zip((a, b, c), part[:3], strict=True):
            put(out, self._places, values)
        return Evaluation(a, b, c, np.union1d(wrong, self._places[part.wrong]))


def _of_field(rows: FieldRows, z: NDArray[np.uint8], threads: int) -> Evaluation:
    a, b, c = rows.evaluate(z, threads)
    return Evaluation(a, b, c, unsatisfied(a, b, c, threads))


def _sub_matrices(matrices: Matrices, rows: Rows) -> tuple[Rows, Matrices]:
    """The columns that some rows need, all inputs first, and these rows over these columns."""
    parts = [side.take(rows) for side in (matrices.a, matrices.b, matrices.c)]
    needed = np.zeros(matrices.num_columns, bool)
    needed[: matrices.num_inputs] = True
    for side in parts:
        needed[side.col] = True
    columns = np.flatnonzero(needed)
    number = (np.cumsum(needed) - 1).astype(np.int32)
    a, b, c = (SparseRows(side.indptr, number[side.col], side.coef) for side in parts)
    num_aux = len(columns) - matrices.num_inputs
    return columns, Matrices(matrices.num_inputs, num_aux, a, b, c, matrices.coefs)
