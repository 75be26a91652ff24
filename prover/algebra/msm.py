"""Multi-scalar multiplication over fixed bases: sum s_i P_i in G1 or G2.

Bucket method on signed digits. `tables` copies of the bases are kept, copy j holding 2^(c d j) P_i for d =
ceil(windows / tables): window j d + s uses copy j and bucket set s, so that windows share buckets. One table needs no
preparation and d = all windows bucket sets; as many tables as windows need one set, at windows times the memory and
some 250 doublings a base (half of that on G1 and a quarter on G2 with the images of `endomorphism`, which take the
place of half and three quarters of the windows). Scalars 0 cost nothing, and 1 one addition: a witness of bits is
summed apart, and the window is chosen for the other scalars.
"""

from __future__ import annotations

import weakref
from typing import Final

import numpy as np

from prover.algebra import buckets, chunks, digits, endomorphism, hosts, kernels, points, reduction, small
from prover.algebra.bases import Kept, Layout, Points, Windows, kept
from prover.algebra.buckets import Ints
from prover.algebra.curve import Group
from prover.algebra.digits import Digits
from prover.algebra.fields import FR
from prover.algebra.kernels import in_threads
from prover.algebra.limbs import Bytes, are_bits
from prover.algebra.points import Rows
from prover.algebra.table import Entries, Table
from prover.errors import InvalidInput

#: digits that are sorted and added together, at most
_ENTRIES: Final = 1 << 23
#: scalars that are cut into digits at a time
_SCALARS: Final = 1 << 15
#: as many buckets as the longest lane of the reduction takes
_WARM_UP_BITS: Final = 6


#: the numbers of buckets over all sets, and a projective row for each
_Sums = tuple[Ints, Rows]


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
        self._tables: dict[tuple[kernels.Place, bool], Table] = {}  # copied to the device or not

    @property
    def nbytes(self) -> int:
        """Memory of the rows, on the host and on each device whose memory is its own."""
        return self._rows.nbytes

    @property
    def _base_bytes(self) -> int:
        """Memory of the rows of one base."""
        return self.windows.copies * self._parts * self._rows[:1].nbytes

    def _table(self, part: slice) -> Table:
        """The rows of these bases at this thread's place. All of them stay there, if there is room; some are copied."""
        limit = chunks.limit()
        place = kernels.place(), limit is not None
        if len(range(*part.indices(self.size))) < self.size:
            self._tables.pop(place, None)
            return Table.of_affine(self.group, self._rows_alone(part))
        if place in self._tables:
            return self._tables[place]
        table = Table.of_affine(self.group, self._rows)
        if limit is None:
            self._tables[place] = table
        elif limit.keep(self.nbytes):
            # tied to the rows themselves: they go with these bases, or with the last sum that uses them
            weakref.finalize(table, limit.drop, self.nbytes).atexit = False
            self._tables[place] = table
        return table

    def _rows_alone(self, part: slice) -> Rows:
        """A copy of the rows of these bases, block by block, after that of infinity."""
        blocks = self._rows[1:].reshape(self.windows.copies * self._parts, self.size, -1)[:, part]
        rows = np.empty((1 + blocks.shape[0] * blocks.shape[1], blocks.shape[2]), np.float32)
        rows[0] = self._rows[0]
        rows[1:].reshape(blocks.shape)[:] = blocks
        return rows

    def msm(self, scalars: Bytes, threads: int = 1) -> Bytes:
        """sum s_i P_i for canonical scalars uint8[n, 32] -> one uncompressed point uint8[96 or 192].

        On a mesh of several processes each of them must ask for it. Raises ScalarCountMismatch, or NonCanonical for a
        scalar that is not below r; of several processes also what `hosts.added_up` raises.
        """
        if scalars.shape != (self.size, FR.size):
            raise ScalarCountMismatch(f"{self.size} bases, scalars of shape {scalars.shape}", field="scalars")
        FR.check_canonical(scalars, "scalars")
        hosts.begin()
        point = hosts.added_up(self.group, self._sum(scalars, threads), scalars)
        return small.to_bytes(self.group, point)

    def _sum(self, scalars: Bytes, threads: int) -> small.Point:
        ones, others = self._apart(scalars)
        w = self.windows if self.layout.fixed else Windows.best(self._parts * len(others), 1, self.windows.length)

        def of_chunk(part: slice) -> _Sums:
            own = (_within(ones, part), _within(others, part))
            return self._chunk_sums(scalars[part], *own, part, w, threads) if any(map(len, own)) else none

        none: _Sums = (np.empty(0, np.int64), np.empty((0, self.group.columns), np.float32))
        found = none
        for number, sums in chunks.slices(self.size, self._base_bytes, of_chunk):
            found = self._folded(found, (number, sums), threads) if len(found[0]) else (number, sums)
        return small.horner(self._totals(found, w, threads), w.bits, self.group.degree)

    def _chunk_sums(self, scalars: Bytes, ones: Ints, others: Ints, part: slice, w: Windows, threads: int) -> _Sums:
        """The sums of buckets over the bases of a chunk; `ones` and `others` count from its first one."""
        chosen, rows = self._digits(scalars[others], w, threads), self._rows_of(others, w, len(scalars))
        table, found = self._table(part), []
        for sets in _groups(w, chosen.size):
            entries, sizes = hosts.own_part(*_sort(chosen, rows, w, sets, ones, threads))
            runs = buckets.cut(entries, sizes)
            sums = buckets.add_runs(table, runs, threads)
            kept = buckets.fold(self.group, runs.bucket, sums, threads)
            found.append((sets.start * w.buckets + runs.bucket[kept], sums[kept]))
        return np.concatenate([number for number, _ in found]), np.concatenate([sums for _, sums in found])

    def _folded(self, left: _Sums, right: _Sums, threads: int) -> _Sums:
        """The sums of buckets over both chunks."""
        number, sums = np.concatenate([left[0], right[0]]), np.concatenate([left[1], right[1]])
        kept = buckets.fold(self.group, number, sums, threads)
        return number[kept], sums[kept]

    def _totals(self, found: _Sums, w: Windows, threads: int) -> list[small.Point]:
        """The weighted sum of the buckets of each set."""
        place = np.zeros((w.sets, w.buckets), np.int64)
        place.reshape(-1)[found[0]] = 1 + np.arange(len(found[0]))

        def of_sets(part: slice) -> list[small.Point]:
            own = place[part]
            rows, numbers = own[own > 0] - 1, np.zeros_like(own)
            numbers[own > 0] = 1 + np.arange(len(rows))
            return reduction.weighted_sums(self.group, numbers, found[1][rows], threads)

        unit = 2 * w.buckets * self.group.columns * found[1].itemsize  # rows are padded to a power of two
        return [total for totals in chunks.slices(w.sets, unit, of_sets) for total in totals]

    def _apart(self, scalars: Bytes) -> tuple[Ints, Ints]:
        """Which scalars are 1, and which are neither 0 nor 1; those of bases at infinity are left out."""
        is_bit = are_bits(scalars)
        ones = np.flatnonzero(is_bit & (scalars[:, 0] == 1) & self._finite)
        return ones, np.flatnonzero(~is_bit & self._finite)

    def _digits(self, scalars: Bytes, w: Windows, threads: int) -> Digits:
        """int32[windows, parts * n]."""
        if self._parts > 1:
            cut = endomorphism.split(self.group, scalars)
            return digits.of_integers(cut.reshape(-1, cut.shape[2]), w.length, w.bits)
        out = np.empty((w.count, len(scalars)), np.int32)

        def work(start: int) -> None:
            part = slice(start, start + _SCALARS)
            out[:, part] = digits.signed(scalars[part], w.bits)

        in_threads(work, range(0, len(scalars), _SCALARS), threads)
        return out

    def _rows_of(self, chosen: Ints, w: Windows, size: int) -> Ints:
        """The rows of those of `size` bases, of all parts in all tables, in the order of the digits of a set."""
        blocks = np.arange(w.copies * self._parts)[:, None] * size
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


def _within(chosen: Ints, part: slice) -> Ints:
    """Those of the sorted numbers that lie in the part, counted from its start."""
    first, last = np.searchsorted(chosen, [part.start, part.stop])
    result: Ints = chosen[first:last] - part.start
    return result


def _groups(w: Windows, digits_in_all: int) -> list[slice]:
    """The sets, cut so that the entries of a group take a bounded amount of memory."""
    width = max(1, w.sets * _ENTRIES // max(digits_in_all, 1))
    return [slice(first, min(first + width, w.sets)) for first in range(0, w.sets, width)]


def _sort(chosen: Digits, rows: Ints, w: Windows, sets: slice, ones: Ints, threads: int) -> tuple[Entries, Ints]:
    """Entries of these sets sorted by bucket, zero digits left out, and the size of each bucket. Bases of scalar 1 come
    first: the first bucket of the first set is theirs."""
    first = ones if sets.start == 0 else ones[:0]

    def of_set(s: int) -> tuple[Entries, Ints]:
        return _sorted_set(chosen[s :: w.sets].reshape(-1), rows, w.buckets)

    found = in_threads(of_set, range(sets.start, sets.stop), threads)
    found[0][1][0] += len(first)
    entries = np.concatenate([(1 + first).astype(np.int32), *(own for own, _ in found)])
    return entries, np.concatenate([sizes for _, sizes in found])


def _sorted_set(own: Digits, rows: Ints, count: int) -> tuple[Entries, Ints]:
    """The entries of one set of `count` buckets, and the size of each."""
    size = np.abs(own).astype(np.uint16)
    order = np.argsort(size, kind="stable")
    counts = np.bincount(size, minlength=count + 1)
    order = order[counts[0] :]
    return np.where(own[order] < 0, -rows[order], rows[order]).astype(np.int32), counts[1:]
