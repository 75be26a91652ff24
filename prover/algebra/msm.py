"""Multi-scalar multiplication over fixed bases: sum s_i P_i in G1 or G2.

Bucket method on signed digits. `tables` copies of the bases are kept, copy j holding 2^(c d j) P_i for d =
ceil(windows / tables): window j d + s uses copy j and bucket set s, so that windows share buckets. One table needs no
preparation and d = all windows bucket sets; as many tables as windows need one set, at windows times the memory and
some 250 doublings a base.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import jax
import numpy as np

from prover.algebra import affine, buckets, digits, lanes, points, reduction, small
from prover.algebra.buckets import Ints
from prover.algebra.curve import Group
from prover.algebra.digits import Digits
from prover.algebra.fields import FR, Bools
from prover.algebra.kernels import in_threads
from prover.algebra.limbs import Bytes
from prover.algebra.points import Rows
from prover.algebra.table import Entries, Table
from prover.errors import InvalidInput

#: a bucket costs two complete additions of the reduction, an entry one mixed addition: measured ratio
_BUCKET_COST: Final = 2.6


class ScalarCountMismatch(InvalidInput):
    """The number of scalars is not the number of bases."""

    code = "scalar_count_mismatch"


@dataclass(frozen=True)
class Windows:
    """c bits a digit, `count` digits, in `sets` sets of buckets over `tables` copies of the bases."""

    bits: int
    tables: int

    @property
    def count(self) -> int:
        return digits.window_count(self.bits)

    @property
    def sets(self) -> int:
        return -(-self.count // self.tables)

    @property
    def copies(self) -> int:
        """Tables that are used: ceil(count / sets) may be fewer than asked for."""
        return -(-self.count // self.sets)

    def cost(self, bases: int) -> float:
        """Additions of an MSM, roughly."""
        return self.count * bases + self.sets * _BUCKET_COST * (1 << (self.bits - 1))

    @classmethod
    def best(cls, bases: int, tables: int) -> Windows:
        """The window that costs least."""
        return min((cls(c, tables) for c in range(4, digits.MAX_WINDOW + 1)), key=lambda w: w.cost(bases))


class FixedBases:
    """Bases prepared once, for many MSMs. Thread-safe: an MSM only reads."""

    def __init__(
        self,
        data: Bytes,
        group: Group,
        device: jax.Device | None = None,
        *,
        tables: int = 1,
        window_bits: int | None = None,
        threads: int = 1,
    ) -> None:
        """Bases as uncompressed bytes uint8[n, 96 or 192] (infinity allowed; on the curve and in the subgroup is the
        caller's business). `tables` bounds the memory: tables * n rows of 256 (G1) or 512 (G2) bytes. Raises
        InvalidPoint."""
        points.check(group, data, "bases")
        self.group, self.device, self.size = group, device, len(data)
        self.windows = Windows(window_bits, tables) if window_bits else Windows.best(len(data), tables)
        self._finite: Bools = ~points.infinities(data)
        with jax.default_device(device):
            self.table = Table.of_affine(group, _copies(group, data, self.windows, threads), device)

    @property
    def nbytes(self) -> int:
        """Memory of the tables."""
        return self.table.nbytes

    def msm(self, scalars: Bytes, threads: int = 1) -> Bytes:
        """sum s_i P_i for canonical scalars uint8[n, 32] -> one uncompressed point uint8[96 or 192].

        Raises ScalarCountMismatch, or NonCanonical for a scalar that is not below r.
        """
        if scalars.shape != (self.size, FR.size):
            raise ScalarCountMismatch(f"{self.size} bases, scalars of shape {scalars.shape}", field="scalars")
        FR.check_canonical(scalars, "scalars")
        with jax.default_device(self.device):
            return small.to_bytes(self.group, self._sum(scalars, threads))

    def _sum(self, scalars: Bytes, threads: int) -> small.Point:
        w, group = self.windows, self.group
        chosen = digits.signed(scalars, w.bits)
        chosen[:, ~self._finite] = 0
        entries, sizes = _sort(chosen, w)
        runs = buckets.cut(entries, sizes)
        sums = buckets.add_runs(self.table, runs, threads)
        kept = buckets.fold(group, runs.bucket, sums, threads)
        number = np.zeros(w.sets << (w.bits - 1), np.int64)
        number[runs.bucket[kept]] = 1 + kept
        totals = reduction.weighted_sums(group, number.reshape(w.sets, -1), sums, self.device, threads)
        return small.horner(totals, w.bits, group.degree)


def msm(data: Bytes, scalars: Bytes, group: Group, device: jax.Device | None = None, threads: int = 1) -> Bytes:
    """sum s_i P_i over bases used once."""
    return FixedBases(data, group, device, threads=threads).msm(scalars, threads)


def _sort(chosen: Digits, w: Windows) -> tuple[Entries, Ints]:
    """Digits int32[windows, n] -> (entries sorted by bucket over all sets, zero digits left out; the size of each
    bucket)."""
    half = 1 << (w.bits - 1)
    entries, sizes = [], []
    for s in range(w.sets):
        own = chosen[s :: w.sets]
        size = np.abs(own).astype(np.uint16).reshape(-1)
        order = np.argsort(size, kind="stable")
        counts = np.bincount(size, minlength=half + 1)
        order = order[counts[0] :].astype(np.int32)
        entries.append(np.where(own.reshape(-1)[order] < 0, -1 - order, order + 1))
        sizes.append(counts[1:])
    return np.concatenate(entries), np.concatenate(sizes)


def _copies(group: Group, data: Bytes, w: Windows, threads: int) -> Rows:
    """Rows 1 + n j + i: 2^(c d j) P_i as affine rows; row 0 is left for infinity."""
    n = len(data)
    rows = np.empty((1 + w.copies * n, group.affine_columns), np.float32)
    rows[1 : n + 1] = points.to_rows(group, data, threads)
    for j in range(1, w.copies):
        before = rows[1 + (j - 1) * n : 1 + j * n]
        rows[1 + j * n : 1 + (j + 1) * n] = _doubled(group, before, w.bits * w.sets, threads)
    return rows


def _doubled(group: Group, rows: Rows, times: int, threads: int) -> Rows:
    """2^times * point of affine rows, affine again (rows of infinity give nonsense that no digit uses)."""
    width = lanes.lane_count(group)
    out = np.empty((len(rows), group.columns), np.float32)

    def work(first: int) -> None:
        part = rows[first : first + width]
        tile = np.zeros((width, group.columns), np.float32)
        tile[: len(part)] = lanes.affine_as_projective(part, group)
        out[first : first + width] = np.asarray(lanes.double_times(tile, np.int32(times), group=group))[: len(part)]

    in_threads(work, range(0, len(rows), width), threads)
    return affine.normalise(group, out, threads)[0]
