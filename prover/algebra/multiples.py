"""Many multiples of one generator, as a setup needs them: s_i * G for tens of thousands of s_i, normalised to
affine."""

from __future__ import annotations

import functools
import threading

import numpy as np

from prover.algebra import affine, buckets, digits, points, small
from prover.algebra.buckets import Runs
from prover.algebra.chunks import apart
from prover.algebra.curve import Group
from prover.algebra.fields import FP, FR
from prover.algebra.kernels import Place, place
from prover.algebra.limbs import Bytes
from prover.algebra.points import Rows
from prover.algebra.table import Table

#: of two threads that want the same table, one makes it
_making = threading.Lock()


def of_generator(group: Group, scalars: Bytes, threads: int = 1) -> Bytes:
    """s_i * G for canonical scalars uint8[n, 32] -> uncompressed affine points uint8[n, 96 or 192]; infinity for s_i
    = 0.

    Raises NonCanonical for a scalar that is not below r.
    """
    FR.check_canonical(scalars, "scalars")
    bits = _window(len(scalars))
    chosen = digits.signed(scalars, bits).T
    windows, half = chosen.shape[1], 1 << (bits - 1)
    row = np.abs(chosen) + np.arange(windows, dtype=np.int32) * half
    entries = np.where(chosen == 0, 0, np.sign(chosen) * row).astype(np.int32).reshape(-1)
    lane = np.arange(len(scalars))
    runs = Runs(entries, lane, lane * windows, np.full(len(scalars), windows))
    with _making:
        table = _table(group, bits, threads, place() if apart() else None)
    sums = buckets.add_runs(table, runs, threads)
    return affine.to_bytes(group, *affine.normalise(group, sums, threads), threads)


def _window(count: int) -> int:
    """The window whose table and additions cost least; a table row costs about three additions."""
    return min(range(4, 14), key=lambda c: digits.window_count(c) * (count + 3 * (1 << (c - 1))))


@functools.lru_cache(maxsize=4)
def _table(group: Group, bits: int, threads: int, _place: Place | None) -> Table:
    """On a device, or in the memory of the host (None) for all CPUs.

    Row 1 + j * 2^(bits - 1) + (d - 1) is d * 2^(bits * j) * G for 0 < d <= 2^(bits - 1)."""
    windows, half = digits.window_count(bits), 1 << (bits - 1)
    known = _bases(group, bits)[:, None]  # [windows, d, columns]
    while known.shape[1] < half:
        last = np.repeat(known[:, -1:], known.shape[1], axis=1)
        more = buckets.add_rows(group, known.reshape(-1, group.columns), last.reshape(-1, group.columns), threads)
        known = np.concatenate([known, more.reshape(known.shape)], axis=1)
    rows = np.empty((1 + windows * half, group.affine_columns), np.float32)
    rows[0] = points.infinity_row(group)
    rows[1:] = affine.normalise(group, known.reshape(-1, group.columns), threads)[0]
    return Table.of_affine(group, rows)


def _bases(group: Group, bits: int) -> Rows:
    """2^(bits * j) * G, projective rows."""
    x, y = ((*c, 0)[:2] for c in group.generator)
    point: small.Point = ((x[0], x[1]), (y[0], y[1]), (1, 0))
    found = []
    for _ in range(digits.window_count(bits)):
        found.append(point)
        point = small.shift(point, bits, group.degree)
    numbers = [c for p in found for pair in p for c in pair[: group.degree]]
    encoded = FP.encode_ints32(numbers).reshape(2 * FP.k, len(found), -1)
    return np.ascontiguousarray(encoded.transpose(1, 0, 2)).reshape(len(found), group.columns)
