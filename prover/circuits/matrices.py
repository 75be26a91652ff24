"""The recorded matrices A, B and C of a circuit.

Columns: input i (ONE is input 0) is column i, aux j is column num_inputs + j. A row's terms are sorted by column, with
one term a column, no coefficient 0; coefficients are numbers into a table of distinct values. The rows x * 0 = 0, which
generator and prover append for each input, are not stored but counted by `num_rows`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from prover.circuits.constraint_system import ConstraintSystem
from prover.circuits.recorder import Int32, Terms, UInt16

Mask = NDArray[np.bool_]
#: rows that are sorted at once: their number takes 16 bits
_SORTED_ROWS = 1 << 16


@dataclass(frozen=True)
class SparseRows:
    """A matrix in CSR form: the terms of row i are at indptr[i] .. indptr[i + 1]."""

    indptr: Int32
    col: Int32
    #: number into `Matrices.coefs`
    coef: UInt16

    @property
    def nnz(self) -> int:
        return len(self.col)

    def take(self, rows: NDArray[np.intp]) -> SparseRows:
        """These rows alone."""
        counts = self.indptr[rows + 1] - self.indptr[rows]
        indptr = np.concatenate([[0], np.cumsum(counts)])
        terms = np.repeat(self.indptr[rows] - indptr[:-1], counts) + np.arange(indptr[-1])
        return SparseRows(indptr.astype(np.int32), self.col[terms], self.coef[terms])


@dataclass(frozen=True)
class Matrices:
    """A circuit's rows A * B = C. `coefs` is uint8[k, 32], canonical, little-endian.

    `known_bits`: which aux are 0 or 1 in every satisfying assignment, as far as the recording tells.
    """

    num_inputs: int
    num_aux: int
    a: SparseRows
    b: SparseRows
    c: SparseRows
    coefs: NDArray[np.uint8]
    known_bits: Mask | None = None

    @property
    def num_constraints(self) -> int:
        """Rows as synthesised."""
        return len(self.a.indptr) - 1

    @property
    def num_rows(self) -> int:
        """Rows with those of the inputs (A = x_i, B = C = 0, ONE included), over which the prover's a, b and c run."""
        return self.num_constraints + self.num_inputs

    @property
    def num_columns(self) -> int:
        return self.num_inputs + self.num_aux

    @property
    def domain(self) -> int:
        """The next power of two of `num_rows`."""
        return 1 << (self.num_rows - 1).bit_length()

    @property
    def nnz(self) -> tuple[int, int, int]:
        return self.a.nnz, self.b.nnz, self.c.nnz

    @cached_property
    def bit_mask(self) -> Mask:
        """bool[num_aux]: which aux are known to be 0 or 1."""
        return np.zeros(self.num_aux, bool) if self.known_bits is None else self.known_bits

    @cached_property
    def a_aux_mask(self) -> Mask:
        """bool[num_aux]: which aux occur in A. The inputs all count as occurring, because of their rows."""
        return self._occurring(self.a)[self.num_inputs :]

    @cached_property
    def b_input_mask(self) -> Mask:
        """bool[num_inputs]: which inputs occur in B."""
        return self._occurring(self.b)[: self.num_inputs]

    @cached_property
    def b_aux_mask(self) -> Mask:
        """bool[num_aux]: which aux occur in B."""
        return self._occurring(self.b)[self.num_inputs :]

    def _occurring(self, matrix: SparseRows) -> Mask:
        return np.bincount(matrix.col, minlength=self.num_columns) > 0


def matrices_of(cs: ConstraintSystem) -> Matrices:
    """The rows recorded by `cs`, with columns and coefficients numbered as described above."""
    rows = [_sorted_rows(terms, cs.num_inputs) for terms in cs.rows.terms()]
    values = cs.recording.coefficients.values
    order, numbers = _by_first_use(rows, len(values))
    a, b, c = (SparseRows(matrix.indptr, matrix.col, numbers[matrix.coef]) for matrix in rows)
    table = b"".join(values[i].to_bytes(32, "little") for i in order)
    coefs = np.frombuffer(table, np.uint8).reshape(-1, 32)
    return Matrices(cs.num_inputs, cs.num_aux, a, b, c, coefs, np.frombuffer(bytes(cs.bits), bool))


def _sorted_rows(terms: Terms, num_inputs: int) -> SparseRows:
    indptr = np.concatenate([[0], np.cumsum(terms.counts, dtype=np.int64)])
    if indptr[-1] > np.iinfo(np.int32).max:
        raise OverflowError(f"{indptr[-1]} terms do not fit into 32-bit row pointers")
    columns = np.where(terms.columns < 0, -1 - terms.columns, terms.columns + np.int32(num_inputs))
    coefficients = terms.coefficients.copy()
    for first in range(0, len(terms.counts), _SORTED_ROWS):
        counts = terms.counts[first : first + _SORTED_ROWS]
        part = slice(indptr[first], indptr[first + len(counts)])
        # a term in one number: row, column, coefficient
        rows = np.repeat(np.arange(len(counts), dtype=np.uint64) << 48, counts)
        keys = np.sort(rows | columns[part].astype(np.uint64) << 16 | coefficients[part])
        columns[part], coefficients[part] = keys >> 16 & 0xFFFFFFFF, keys & 0xFFFF
    return SparseRows(indptr.astype(np.int32), columns, coefficients)


def _by_first_use(rows: list[SparseRows], count: int) -> tuple[list[int], UInt16]:
    """The used coefficients in the order of first use (by row, A before B before C), and old number -> new number."""
    unused = np.iinfo(np.int64).max
    first = np.full(count, unused, np.int64)
    for position, matrix in enumerate(rows):
        used, place = np.unique(matrix.coef, return_index=True)
        row = np.searchsorted(matrix.indptr, place, side="right") - 1
        key = (row * 3 + position) << 32 | (place - matrix.indptr[row])
        first[used] = np.minimum(first[used], key)
    order = [int(i) for i in np.argsort(first, kind="stable") if first[i] != unused]
    numbers = np.zeros(count, np.uint16)
    numbers[order] = np.arange(len(order), dtype=np.uint16)
    return order, numbers
