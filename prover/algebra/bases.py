"""What is kept of the bases of a sum: copies of them (fixed-base tables), and images under the group's endomorphism.

Rows: infinity, then for each copy j and each part i a block of as many rows as there are bases, 2^(c d j) P and what
`endomorphism` makes of it for part i, with windows of c bits in d sets. They are made in pieces of some bases, so that
making them takes little more memory than they do, or hardly any where they go to a file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from prover.algebra import affine, digits, lanes, points
from prover.algebra.curve import Group
from prover.algebra.endomorphism import images, part_bits, parts
from prover.algebra.fields import Bools
from prover.algebra.kernels import in_threads
from prover.algebra.limbs import Bytes
from prover.algebra.points import Rows

#: a bucket costs two complete additions of the reduction, an entry one mixed addition: measured ratio
_BUCKET_COST: Final = 2.6
#: up to so many bases of a group their images are kept: they save buckets, of which a large sum has few for its size,
#: and cost memory
_MOST_IMAGES: Final = {"G1": 1 << 16, "G2": 1 << 17}
#: bases of a piece
PIECE: Final = 1 << 16


class Points(Protocol):
    """Uncompressed points that are read in slices: an array, or several that follow each other."""

    def __len__(self) -> int: ...

    def __getitem__(self, part: slice) -> Bytes: ...


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


@dataclass(frozen=True)
class Layout:
    """Which rows are kept of `size` bases of a group."""

    group: Group
    size: int
    parts: int  # 1, or those of the endomorphism
    windows: Windows
    fixed: bool  # sums use these windows; otherwise there is one copy, and each sum chooses its own

    @classmethod
    def of(
        cls,
        group: Group,
        size: int,
        *,
        tables: int = 1,
        window_bits: int | None = None,
        with_images: bool | None = None,
        full: int | None = None,
    ) -> Layout:
        """`tables` copies at most, the window of `window_bits` or else the best for sums in which `full` of the scalars
        (all, by default) are neither 0 nor 1; images by default where they pay without tables."""
        chosen = size <= _MOST_IMAGES[group.name] if with_images is None else with_images
        count, length = (parts(group), part_bits(group) + 1) if chosen else (1, digits.BITS)
        windows = (
            Windows(window_bits, tables, length)
            if window_bits
            else Windows.best(count * (size if full is None else full), tables, length)
        )
        return cls(group, size, count, windows, fixed=bool(window_bits) or tables > 1)

    @property
    def block(self) -> int:
        """Rows of one copy."""
        return self.parts * self.size

    @property
    def rows(self) -> int:
        """Rows in all."""
        return 1 + self.windows.copies * self.block

    @property
    def nbytes(self) -> int:
        """Memory of the rows."""
        return self.rows * self.group.affine_columns * np.dtype(np.float32).itemsize

    def cost(self, full: int) -> float:
        """Additions in the group for a sum with `full` scalars that are neither 0 nor 1, roughly."""
        return self.windows.cost(self.parts * full)


@dataclass(frozen=True)
class Kept:
    """Rows float32[layout.rows, columns], read-only for all who use them, and which bases are finite."""

    layout: Layout
    rows: Rows
    finite: Bools


@dataclass(frozen=True)
class Piece:
    """The bases from `first` on: which are finite, and their rows, each at its place among all rows."""

    first: int
    finite: Bools
    rows: list[tuple[int, Rows]]


def kept(layout: Layout, data: Points, threads: int = 1) -> Kept:
    """All rows of the bases in memory. Raises InvalidPoint."""
    rows = np.empty((layout.rows, layout.group.affine_columns), np.float32)
    finite = np.empty(layout.size, np.bool_)
    rows[0] = points.infinity_row(layout.group)
    for piece in pieces(layout, data, threads):
        finite[piece.first : piece.first + len(piece.finite)] = piece.finite
        for at, part in piece.rows:
            rows[at : at + len(part)] = part
    return Kept(layout, rows, finite)


def pieces(layout: Layout, data: Points, threads: int = 1) -> Iterator[Piece]:
    """The rows of the bases, some bases at a time; row 0, infinity, is in none. Raises InvalidPoint."""
    for first in range(0, layout.size, PIECE):
        part = data[first : first + PIECE]
        points.check(layout.group, part, "bases", first)
        own = points.to_rows(layout.group, part, threads)
        yield Piece(first, ~points.infinities(part), list(_copies(layout, first, own, threads)))


def _copies(layout: Layout, first: int, bases: Rows, threads: int) -> Iterator[tuple[int, Rows]]:
    """Each copy of these bases, and its images, with the rows' place."""
    w, place = layout.windows, 1 + first
    for copy in range(w.copies):
        if copy:
            bases = _doubled(layout.group, bases, w.bits * w.sets, threads)
        yield place, bases
        if layout.parts > 1:
            for image in np.split(images(layout.group, bases, threads), layout.parts - 1):
                place += layout.size
                yield place, image
        place += layout.size


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
