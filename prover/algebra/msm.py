"""Multi-scalar multiplication over fixed bases: sum s_i P_i in G1 or G2.

Bucket method on signed digits. `tables` copies of the bases are kept, copy j holding 2^(c d j) P_i for d =
ceil(windows / tables): window j d + s uses copy j and bucket set s, so that windows share buckets. One table needs no
preparation and d = all windows bucket sets; as many tables as windows need one set, at windows times the memory and
some 250 doublings a base (half of that on G1 and a quarter on G2 with the images of `endomorphism`, which take the
place of half and three quarters of the windows). Scalars 0 cost nothing, and 1 one addition: a witness of bits is
summed apart, and the window is chosen for the other scalars.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import jax
import numpy as np

from prover.algebra import affine, buckets, digits, endomorphism, kernels, lanes, points, reduction, small
from prover.algebra.buckets import Ints
from prover.algebra.curve import Group
from prover.algebra.digits import Digits
from prover.algebra.endomorphism import images, part_bits, parts
from prover.algebra.fields import FR, Bools
from prover.algebra.kernels import in_threads
from prover.algebra.limbs import Bytes, are_bits
from prover.algebra.points import Rows
from prover.algebra.table import Entries, Table
from prover.errors import InvalidInput

#: a bucket costs two complete additions of the reduction, an entry one mixed addition: measured ratio
_BUCKET_COST: Final = 2.6
#: up to so many bases of a group their images are kept: they save buckets, of which a large sum has few for its size,
#: and cost memory
_MOST_IMAGES: Final = {"G1": 1 << 16, "G2": 1 << 17}
#: digits that are sorted and added together, at most
_ENTRIES: Final = 1 << 23
#: as many buckets as the longest lane of the reduction takes
_WARM_UP_BITS: Final = 6


class ScalarCountMismatch(InvalidInput):
    """The number of scalars is not the number of bases."""

    code = "scalar_count_mismatch"


@dataclass(frozen=True)
class Windows:
    """c bits a digit, `count` digits of a part of `length` bits, in `sets` sets of buckets over `tables` copies."""

    bits: int
    tables: int
    length: int = digits.BITS

    @property
    def count(self) -> int:
        return digits.window_count(self.bits, self.length)

    @property
    def sets(self) -> int:
        return -(-self.count // self.tables)

    @property
    def copies(self) -> int:
        """Tables that are used: ceil(count / sets) may be fewer than asked for."""
        return -(-self.count // self.sets)

    @property
    def buckets(self) -> int:
        """Buckets of a set: one for each size of a digit."""
        return 1 << (self.bits - 1)

    def cost(self, bases: int) -> float:
        """Additions of an MSM, roughly."""
        return self.count * bases + self.sets * _BUCKET_COST * self.buckets

    @classmethod
    def best(cls, bases: int, tables: int, length: int = digits.BITS) -> Windows:
        """The window that costs least."""
        sizes = range(4, digits.MAX_WINDOW + 1)
        return min((cls(c, tables, length) for c in sizes), key=lambda w: w.cost(bases))


class FixedBases:
    """Bases prepared once, for many MSMs on any device: on CPUs all devices read the same memory. Thread-safe."""

    def __init__(
        self,
        data: Bytes,
        group: Group,
        *,
        tables: int = 1,
        window_bits: int | None = None,
        images: bool | None = None,
        threads: int = 1,
    ) -> None:
        """Bases as uncompressed bytes uint8[n, 96 or 192] (infinity allowed; on the curve and in the subgroup is the
        caller's business). Memory: tables * n rows of 256 (G1) or 512 (G2) bytes, twice (G1) or four times (G2) that
        with `images` under the group's endomorphism: by default up to `_MOST_IMAGES` bases. Raises InvalidPoint."""
        points.check(group, data, "bases")
        self.group, self.size = group, len(data)
        self._finite: Bools = ~points.infinities(data)
        with_images = len(data) <= _MOST_IMAGES[group.name] if images is None else images
        self._parts, length = (parts(group), part_bits(group) + 1) if with_images else (1, digits.BITS)
        self._fixed = bool(window_bits) or tables > 1
        best = Windows.best(self._parts * len(data), tables, length)
        self.windows = Windows(window_bits, tables, length) if window_bits else best
        self._rows = _copies(group, data, self.windows, with_images, threads)
        self._tables: dict[jax.Device, Table] = {}

    @property
    def nbytes(self) -> int:
        """Memory of the tables, on the host and on each device whose memory is its own."""
        return self._rows.nbytes

    def _table(self) -> Table:
        """The tables on this thread's device."""
        device = kernels.device()
        if device not in self._tables:
            self._tables[device] = Table.of_affine(self.group, self._rows)
        return self._tables[device]

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
        w = self.windows if self._fixed else Windows.best(self._parts * len(others), 1, self.windows.length)
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


def _copies(group: Group, data: Bytes, w: Windows, with_images: bool, threads: int) -> Rows:
    """Rows 1 + n (parts j + i) ..: part i of table j, 2^(c d j) times the bases, affine; row 0 is left for infinity."""
    n, count = len(data), len(data) * (parts(group) if with_images else 1)
    rows = np.empty((1 + w.copies * count, group.affine_columns), np.float32)
    bases = points.to_rows(group, data, threads, out=rows[1 : n + 1])
    for first in range(1, len(rows), max(count, 1)):
        if first > 1:
            bases = _doubled(group, bases, w.bits * w.sets, threads)
            rows[first : first + n] = bases
        if with_images:
            rows[first + n : first + count] = images(group, bases, threads)
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
