"""The products of rows whose variables all are bits: on small integers, nearly every row of a SHA-256 circuit.

Most rows have a few terms with small coefficients: their values are looked up among the residues of -16 .. 16. The
others are the packed sums of SHA-256, with some thousand weighted bits.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from prover.algebra.fields import FR
from prover.algebra.kernels import Residues, in_threads
from prover.algebra.limbs import are_bits
from prover.circuits.matrices import Mask, Matrices, SparseRows
from prover.circuits.residues import Floats, balanced_integers, reduced, unsatisfied

SmallInts = NDArray[np.int8]
Rows = NDArray[np.intp]

#: largest coefficient, and most terms, of a row on small integers
_MAX_COEFFICIENT: Final = 4
_MAX_TERMS: Final = 4
_LIMIT: Final = _MAX_COEFFICIENT * _MAX_TERMS
#: the most weighted bits in a row: what is added before a reduction
_MAX_WEIGHTS: Final = 1 << 12
#: rows of a task, so that their terms stay in a core's cache
_SMALL_ROWS: Final = 1 << 14
_SUM_ROWS: Final = 256


class BitRows:
    """A circuit's rows of bits, prepared. Immutable, safe to share between threads."""

    def __init__(self, matrices: Matrices) -> None:
        self._is_bit = np.concatenate([np.arange(matrices.num_inputs) == 0, matrices.bit_mask])
        small = _small_values(matrices.coefs)
        a, b, c = (_Side(rows, self._is_bit, small) for rows in (matrices.a, matrices.b, matrices.c))
        #: bool[num_constraints]: rows on small integers
        self.small = a.small & b.small & c.small
        #: the numbers of the rows of larger sums
        self.sums: Rows = np.flatnonzero(a.bits & b.bits & c.bits & ~self.small)
        self._sides = (a, b, c)
        self._weighted = tuple(_WeightedSums(side.rows.take(self.sums), matrices.coefs) for side in self._sides)
        self._values = FR.encode(FR.bytes_of([value % FR.p for value in range(-_LIMIT, _LIMIT + 1)]))

    def read(self, z: NDArray[np.uint8]) -> SmallInts | None:
        """The bits among all columns, uint8[num_columns, 32] canonical -> int8[num_columns]; None if one is no bit."""
        bits = np.empty(len(z), np.int8)
        for start in range(0, len(z), _SMALL_ROWS):
            part = slice(start, start + _SMALL_ROWS)
            if np.any(self._is_bit[part] & ~are_bits(z[part])):
                return None
            bits[part] = z[part, 0].view(np.int8)
        return bits

    def apply(self, bits: SmallInts, out: tuple[Residues, Residues, Residues], threads: int) -> Rows:
        """Fills a, b and c, each float32[22, num_rows], in these rows, and spoils the other rows of the circuit.

        Returns those of its rows, ascending, that do not hold.
        """
        wrong = np.zeros(len(self.small), bool)

        def work(start: int) -> None:
            part = slice(start, min(start + _SMALL_ROWS, len(wrong)))
            a, b, c = (side.values(bits, part) for side in self._sides)
            wrong[part] = self.small[part] & (a * b != c)
            for value, target in zip((a, b, c), out, strict=True):
                self._look_up(value, target[:, part])

        in_threads(work, range(0, len(wrong), _SMALL_ROWS), threads)
        a, b, c = (weighted.residues(bits, threads) for weighted in self._weighted)
        for residues, target in zip((a, b, c), out, strict=True):
            put(target, self.sums, residues)
        wrong[self.sums[unsatisfied(a, b, c, threads)]] = True
        return np.flatnonzero(wrong)

    def _look_up(self, values: NDArray[np.int32], out: Residues) -> None:
        places = np.clip(values + _LIMIT, 0, 2 * _LIMIT).astype(np.intp)
        for residues, target in zip(self._values, out, strict=True):
            np.take(residues, places, out=target, mode="clip")


class _Side:
    """One matrix: `bits`, rows in which all variables are bits, `small`, those of them with few and small terms."""

    def __init__(self, rows: SparseRows, is_bit: Mask, small: SmallInts) -> None:
        self.rows = rows
        self._factors = small[rows.coef]
        counts = np.diff(rows.indptr)
        other = _per_row(~is_bit[rows.col], rows)
        self.bits = (other == 0) & (counts <= _MAX_WEIGHTS)
        self.small = (other == 0) & (counts <= _MAX_TERMS) & (_per_row(self._factors == 0, rows) == 0)

    def values(self, bits: SmallInts, part: slice) -> NDArray[np.int32]:
        """The products of some rows; those of rows that are not small are meaningless."""
        pointers = self.rows.indptr[part.start : part.stop + 1]
        terms = slice(pointers[0], pointers[-1])
        products = np.take(bits, self.rows.col[terms], mode="clip") * self._factors[terms]
        sums = np.zeros(len(products) + 1, np.int32)
        np.cumsum(products, dtype=np.int32, out=sums[1:])
        values: NDArray[np.int32] = np.diff(sums[pointers - pointers[0]])
        return values


class _WeightedSums:
    """Rows of many weighted bits: how often each weight occurs in a row, times the weights."""

    def __init__(self, rows: SparseRows, coefs: NDArray[np.uint8]) -> None:
        used = np.flatnonzero(np.bincount(rows.coef, minlength=len(coefs)))
        number = np.zeros(len(coefs), np.int64)
        number[used] = np.arange(len(used))
        self._indptr, self._columns = rows.indptr, rows.col
        # where a term counts: a cell for each row of a task and each weight
        row = np.repeat(np.arange(len(rows.indptr) - 1) % _SUM_ROWS, np.diff(rows.indptr))
        self._cells = row * len(used) + number[rows.coef]
        self._weights: Floats = np.ascontiguousarray(FR.encode(coefs[used]).T).astype(np.float64)
        self._one = FR.encode(FR.bytes_of([1]))[:, 0].astype(np.int64)

    def residues(self, bits: SmallInts, threads: int) -> Residues:
        """float32[22, rows]."""
        count = len(self._indptr) - 1
        sums = np.empty((count, self._weights.shape[1]), np.float32)

        def work(start: int) -> None:
            part = slice(start, min(start + _SUM_ROWS, count))
            totals = (self._multiplicities(bits, part) @ self._weights).astype(np.int64)
            sums[part] = balanced_integers(balanced_integers(totals) * self._one)

        in_threads(work, range(0, count, _SUM_ROWS), threads)
        return reduced(sums, threads)

    def _multiplicities(self, bits: SmallInts, part: slice) -> Floats:
        """float64[rows of the part, weights]."""
        terms = slice(self._indptr[part.start], self._indptr[part.stop])
        shape = part.stop - part.start, len(self._weights)
        set_bits = bits[self._columns[terms]]
        counts = np.bincount(self._cells[terms], weights=set_bits, minlength=shape[0] * shape[1])
        return counts.astype(np.float64, copy=False).reshape(shape)


def put(out: Residues, columns: Rows, values: Residues) -> None:
    """out[:, columns] = values, a residue at a time: several times faster than numpy's own."""
    for target, row in zip(out, values, strict=True):
        target[columns] = row


def _small_values(coefs: NDArray[np.uint8]) -> SmallInts:
    """int8[k]: the coefficients that are small integers, 0 for the others."""
    values = np.zeros(len(coefs), np.int8)
    for size in range(1, _MAX_COEFFICIENT + 1):
        for value in (size, -size):
            values[(coefs == FR.bytes_of([value % FR.p])).all(axis=1)] = value
    return values


def _per_row(marks: Mask, rows: SparseRows) -> NDArray[np.int32]:
    """How many terms of each row are marked."""
    before = np.zeros(len(marks) + 1, np.int32)
    np.cumsum(marks, dtype=np.int32, out=before[1:])
    return np.diff(before[rows.indptr])
