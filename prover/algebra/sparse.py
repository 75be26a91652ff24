"""Products of the recorded matrices with a witness: row i of the result is the sum of coefficient * witness[column].

Most rows of Filecoin's circuits are one wire with coefficient 1, and are copied. The others are gathered and
multiplied residue by residue, summed without reduction in blocks of 16 terms, and reduced once a row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from prover.algebra.fields import FR
from prover.algebra.kernels import Residues, in_threads, kernel, tiles
from prover.algebra.limbs import Bytes
from prover.errors import InvalidInput

Ints = npt.NDArray[np.integer[Any]]

#: raw products are below 2^48, so 16 of them stay below 2^52 (see `rns`)
_BLOCK: Final = 16
#: rows a task: some 10,000 terms, a few MB
_ROWS: Final = 1024
#: a sum of so many products of reduced elements is still reduced to 7 r or less: terms * 6.5 r^2 / M < r / 2
MAX_TERMS: Final = 1 << 15


class InvalidMatrix(InvalidInput):
    """A sparse matrix is inconsistent."""

    code = "invalid_matrix"


@dataclass(frozen=True)
class _Sums:
    """Rows that need products: their numbers, terms in blocks of at most 16, and the blocks of each row."""

    row: Ints
    column: Ints
    coefficient: Ints
    block_start: Ints  # first term of each block, and the end
    row_start: Ints  # first block of each row, and the end


class SparseMatrix:
    """A matrix of coefficients in CSR form: row i holds terms indptr[i] up to indptr[i + 1]; term t is
    coefs[coef_index[t]] in column col[t]."""

    def __init__(self, indptr: Ints, col: Ints, coef_index: Ints, coefs: Bytes) -> None:
        """`coefs` are canonical scalars uint8[k, 32]. Raises InvalidMatrix where the arrays disagree."""
        indptr, col, coef_index = (np.asarray(v, np.int64) for v in (indptr, col, coef_index))
        _check(indptr, col, coef_index, coefs)
        self.rows, self.columns_needed = len(indptr) - 1, int(col.max(initial=-1)) + 1
        self._coefs = np.ascontiguousarray(FR.encode(coefs).T)
        lengths = np.diff(indptr)
        one = np.zeros(len(coefs), bool)
        one[(coefs[:, 0] == 1) & ~coefs[:, 1:].any(axis=1)] = True
        first = np.minimum(indptr[:-1], max(len(col) - 1, 0))
        copied = (lengths == 1) & one[coef_index[first]] if len(col) else lengths > 0
        self._copy_row = np.flatnonzero(copied)
        self._copy_column = col[first[copied]] if len(col) else np.zeros(0, np.int64)
        self._sums = _sums(np.flatnonzero(~copied & (lengths > 0)), indptr, col, coef_index)

    def product(self, witness: Residues, threads: int = 1) -> Residues:
        """Reduced residues float32[22, n], n >= `columns_needed` -> float32[22, rows], reduced."""
        if witness.shape[1] < self.columns_needed:
            raise InvalidMatrix(f"{self.columns_needed} columns, witness of shape {witness.shape}", field="witness")
        out = np.zeros((2 * FR.k, self.rows), np.float32)
        out[:, self._copy_row] = witness[:, self._copy_column]
        by_wire = np.ascontiguousarray(witness.T)
        sums = self._sums

        def work(start: int) -> None:
            part = slice(start, start + _ROWS)
            out[:, sums.row[part]] = self._reduced(by_wire, start, min(start + _ROWS, len(sums.row)))

        in_threads(work, range(0, len(sums.row), _ROWS), threads)
        return out

    def _reduced(self, by_wire: Residues, start: int, end: int) -> Residues:
        """The sums of rows start..end, reduced: float32[22, end - start]."""
        sums = self._sums
        blocks = slice(sums.row_start[start], sums.row_start[end])
        terms = slice(sums.block_start[blocks.start], sums.block_start[blocks.stop])
        products = by_wire.take(sums.column[terms], axis=0).astype(np.float64)
        products *= self._coefs.take(sums.coefficient[terms], axis=0)
        of_blocks = np.add.reduceat(products, sums.block_start[blocks] - terms.start, axis=0)
        of_blocks -= FR.modulus * np.round(of_blocks * FR.inverse)
        of_rows = np.add.reduceat(of_blocks, sums.row_start[start:end] - blocks.start, axis=0)
        tile = np.zeros((min(tiles().field, _ROWS), 2 * FR.k))
        tile[: len(of_rows)] = of_rows
        return np.asarray(_reduce(tile))[:, : len(of_rows)]


@kernel()
def _reduce(sums: jax.Array) -> jax.Array:
    return FR.reduce(sums.T).astype(jnp.float32)


def _sums(row: Ints, indptr: Ints, col: Ints, coef_index: Ints) -> _Sums:
    lengths = np.diff(indptr)[row]
    ends = np.cumsum(lengths)
    term = np.arange(int(lengths.sum())) + np.repeat(indptr[row] - (ends - lengths), lengths)
    pieces = -(-lengths // _BLOCK)
    piece = np.arange(int(pieces.sum())) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    start = np.repeat(ends - lengths, pieces) + piece * _BLOCK
    return _Sums(
        row,
        col[term],
        coef_index[term],
        np.append(start, len(term)),
        np.append(np.cumsum(pieces) - pieces, len(start)),
    )


def _check(indptr: Ints, col: Ints, coef_index: Ints, coefs: Bytes) -> None:
    lengths = np.diff(indptr)
    if len(indptr) < 1 or indptr[0] != 0 or indptr[-1] != len(col) or (lengths < 0).any():
        raise InvalidMatrix("must rise from 0 to the number of terms", field="indptr")
    if len(coef_index) != len(col) or (len(col) and int(coef_index.max()) >= len(coefs)):
        raise InvalidMatrix(f"must name one of {len(coefs)} coefficients for each term", field="coef_index")
    if (lengths > MAX_TERMS).any():
        raise InvalidMatrix(f"a row has more than {MAX_TERMS} terms", field="indptr")
    FR.check_canonical(coefs, "coefs")
