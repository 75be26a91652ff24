"""Multi-scalar multiplication over fixed bases: sum s_i P_i in G1 or G2.

Bucket method on signed digits. `tables` copies of the bases are kept, copy j holding 2^(c d j) P_i for d =
ceil(windows / tables): window j d + s uses copy j and bucket set s, so that windows share buckets. One table needs no
preparation and d = all windows bucket sets; as many tables as windows need one set, at windows times the memory and
some 250 doublings a base (half of that on G1 and a quarter on G2 with the images of `endomorphism`, which take the
place of half and three quarters of the windows). Scalars 0 cost nothing, and 1 one addition: a witness of bits is
summed apart, and the window is chosen for the other scalars.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from prover.algebra import buckets, digits, endomorphism, kernels, points, reduction, small
from prover.algebra.bases import Kept, Layout, Points, Windows, kept
from prover.algebra.buckets import Ints
from prover.algebra.curve import Group
from prover.algebra.digits import Digits
from prover.algebra.fields import FR
from prover.algebra.limbs import Bytes, are_bits
from prover.algebra.points import Rows
from prover.algebra.table import Entries, Table
from prover.errors import InvalidInput

#: digits that are sorted and added together, at most
_ENTRIES: Final = 1 << 23
#: as many buckets as the longest lane of the reduction takes
_WARM_UP_BITS: Final = 6


class ScalarCountMismatch(InvalidInput):
    """The number of scalars is not the number of bases."""

    code = "scalar_count_mismatch"


class FixedBases:
    """Bases prepared once, for many MSMs on any device: on CPUs all devices read the same memory. Thread-safe."""

    def __init__(
        self,
        data: Points,
        group: Group,
        *,
        tables: int = 1,
        window_bits: int | None = None,
        images: bool | None = None,
        threads: int = 1,
    ) -> None:
        """Bases as uncompressed bytes uint8[n, 96 or 192] (infinity allowed; on the curve and in the subgroup is the
        caller's business). Memory: tables * n rows of 256 (G1) or 512 (G2) bytes, twice (G1) or four times (G2) that
        with `images` under the group's endomorphism (`bases.Layout.of` has the defaults). Raises InvalidPoint."""
        layout = Layout.of(group, len(data), tables=tables, window_bits=window_bits, with_images=images)
        self._use(kept(layout, data, threads))

    @classmethod
    def of(cls, bases: Kept) -> FixedBases:
        """From rows that are there already: in a file, say."""
        made = cls.__new__(cls)
        made._use(bases)
        return made

    def _use(self, bases: Kept) -> None:
        self.layout, self._rows, self._finite = bases.layout, bases.rows, bases.finite
        self.group, self.size, self.windows = self.layout.group, self.layout.size, self.layout.windows
        self._parts = self.layout.parts
        self._tables: dict[kernels.Place, Table] = {}

    @property
    def nbytes(self) -> int:
        """Memory of the rows, on the host and on each device whose memory is its own."""
        return self._rows.nbytes

    def _table(self) -> Table:
        """The rows at this thread's place."""
        place = kernels.place()
        if place not in self._tables:
            self._tables[place] = Table.of_affine(self.group, self._rows)
        return self._tables[place]

    def msm(self, scalars: Bytes, threads: int = 1) -> Bytes:
        """sum s_i P_i for canonical scalars uint8[n, 32] -> one uncompressed point uint8[96 or 192].

        Raises ScalarCountMismatch, or NonCanonical for a scalar that is not below r.
        """
        if scalars.shape != (self.size, FR.size):
            raise ScalarCountMismatch(f"{self.size} bases, scalars of shape {scalars.shape}", field="scalars")
        FR.check_canonical(scalars, "scalars")
        return small.to_bytes(self.group, self._sum(scalars, threads))

    def _sum(self, scalars: Bytes, threads: int) -> small.Point:
        ones, others = self._apart(scalars)
        w = self.windows if self.layout.fixed else Windows.best(self._parts * len(others), 1, self.windows.length)
        chosen, rows = self._digits(scalars[others], w), self._rows_of(others, w)
        number, found = np.zeros((w.sets, w.buckets), np.int64), [np.empty((0, self.group.columns), np.float32)]
        for sets in _groups(w, chosen.size):
            entries, sizes = _sort(chosen, rows, w, sets, ones)
            bucket, sums = self._bucket_sums(entries, sizes, threads)
            number[sets].reshape(-1)[bucket] = 1 + sum(map(len, found)) + np.arange(len(sums))
            found.append(sums)
        totals = reduction.weighted_sums(self.group, number, np.concatenate(found), threads)
        return small.horner(totals, w.bits, self.group.degree)

    def _bucket_sums(self, entries: Entries, sizes: Ints, threads: int) -> tuple[Ints, Rows]:
        """The buckets that are not empty, and their sums."""
        runs = buckets.cut(entries, sizes)
        sums = buckets.add_runs(self._table(), runs, threads)
        kept = buckets.fold(self.group, runs.bucket, sums, threads)
        return runs.bucket[kept], sums[kept]

    def _apart(self, scalars: Bytes) -> tuple[Ints, Ints]:
        """Which scalars are 1, and which are neither 0 nor 1; those of bases at infinity are left out."""
        is_bit = are_bits(scalars)
        ones = np.flatnonzero(is_bit & (scalars[:, 0] == 1) & self._finite)
        return ones, np.flatnonzero(~is_bit & self._finite)

    def _digits(self, scalars: Bytes, w: Windows) -> Digits:
        """int32[windows, parts * n]."""
        if self._parts == 1:
            return digits.signed(scalars, w.bits)
        cut = endomorphism.split(self.group, scalars)
        return digits.of_integers(cut.reshape(-1, cut.shape[2]), w.length, w.bits)

    def _rows_of(self, chosen: Ints, w: Windows) -> Ints:
        """The rows of those bases, of all parts in all tables, in the order of the digits of a set."""
        blocks = np.arange(w.copies * self._parts)[:, None] * self.size
        rows: Ints = (1 + blocks + chosen).reshape(-1)
        return rows


def msm(data: Bytes, scalars: Bytes, group: Group, threads: int = 1) -> Bytes:
    """sum s_i P_i over bases used once."""
    return FixedBases(data, group, threads=threads).msm(scalars, threads)


def compile_sums(group: Group) -> None:
    """Compile all that an MSM of any size needs, by a sum that is small but takes every program: more additions than a
    lane makes in one call, and a bucket of several runs."""
    count = buckets.LONGEST + 1
    data = np.repeat(points.of_generator(group)[None], count, axis=0)
    with kernels.on(kernels.host()):
        bases = FixedBases(data, group, window_bits=_WARM_UP_BITS)
    bases.msm(FR.bytes_of([1] * count))


def _groups(w: Windows, digits_in_all: int) -> list[slice]:
    """The sets, cut so that the entries of a group take a bounded amount of memory."""
    width = max(1, w.sets * _ENTRIES // max(digits_in_all, 1))
    return [slice(first, min(first + width, w.sets)) for first in range(0, w.sets, width)]


def _sort(chosen: Digits, rows: Ints, w: Windows, sets: slice, ones: Ints) -> tuple[Entries, Ints]:
    """Entries of these sets sorted by bucket, zero digits left out, and the size of each bucket. Bases of scalar 1 come
    first: the first bucket of the first set is theirs."""
    first = ones if sets.start == 0 else ones[:0]
    entries, sizes = [(1 + first).astype(np.int32)], []
    for s in range(sets.start, sets.stop):
        own = chosen[s :: w.sets].reshape(-1)
        size = np.abs(own).astype(np.uint16)
        order = np.argsort(size, kind="stable")
        counts = np.bincount(size, minlength=w.buckets + 1)
        order = order[counts[0] :]
        entries.append(np.where(own[order] < 0, -rows[order], rows[order]).astype(np.int32))
        sizes.append(counts[1:])
    sizes[0][0] += len(first)
    return np.concatenate(entries), np.concatenate(sizes)
