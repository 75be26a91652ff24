"""Sums of buckets on the lanes: which lane adds which entries, and the programs driven over it.

An entry is a signed row number: row 0 is infinity, -i stands for the negative of row i. Entries sorted by bucket are
cut into runs of one bucket, at most `LONGEST` entries each; runs of like length share a tile, so lanes seldom idle,
and a bucket that holds everything (all scalars equal) is many runs, added up in log depth.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from prover.algebra import lanes
from prover.algebra.curve import Group
from prover.algebra.kernels import in_threads, tiles
from prover.algebra.points import Rows
from prover.algebra.table import Table

Ints = npt.NDArray[np.int64]
Entries = npt.NDArray[np.int32]

LONGEST: Final = 256


@dataclass(frozen=True)
class Runs:
    """Runs of entries of one bucket, the longest first: `entries[start : start + length]` belongs to `bucket`."""

    entries: Entries
    bucket: Ints
    start: Ints
    length: Ints


def cut(entries: Entries, sizes: Ints) -> Runs:
    """Entries sorted by bucket and the number in each bucket -> runs."""
    pieces = -(-sizes // LONGEST)
    bucket = np.repeat(np.arange(len(sizes)), pieces)
    first = np.cumsum(sizes) - sizes
    piece = np.arange(len(bucket)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    length = np.minimum(sizes[bucket] - piece * LONGEST, LONGEST)
    order = np.argsort(-length, kind="stable")
    return Runs(entries, bucket[order], (first[bucket] + piece * LONGEST)[order], length[order])


def add_runs(table: Table, runs: Runs, threads: int = 1) -> Rows:
    """The sum of each run: projective rows float32[runs, columns]."""
    group, width = table.group, lanes.lane_count(table.group)
    out = np.empty((len(runs.bucket), group.columns), np.float32)

    def work(first: int) -> None:
        part = slice(first, first + width)
        sums = _add_tile(table, runs.entries, runs.start[part], runs.length[part])
        out[part] = sums[: len(out[part])]

    in_threads(work, range(0, len(out), width), threads)
    return out


def _add_tile(table: Table, entries: Entries, start: Ints, length: Ints) -> Rows:
    steps = tiles().steps
    sums = lanes.identities(table.group)
    for done in range(0, int(length[0]), steps):
        chosen = _choose(entries, start, length, done, lanes.lane_count(table.group))
        count = np.int32(min(steps, int(length[0]) - done))
        sums = lanes.add_steps(sums, table.take(chosen), chosen, count, group=table.group)
    return np.asarray(lanes.to_rows(sums))


def _choose(entries: Entries, start: Ints, length: Ints, done: int, width: int) -> Entries:
    """Entries [steps, width] of one call: each lane's next ones, 0 beyond its run."""
    step = done + np.arange(tiles().steps)[:, None]
    chosen = np.zeros((len(step), width), np.int32)
    inside = step < length
    chosen[:, : len(start)] = np.where(inside, entries[np.where(inside, start + step, 0)], 0)
    return chosen


def fold(group: Group, bucket: Ints, sums: Rows, threads: int = 1) -> tuple[Ints, Rows]:
    """Add up the runs of one bucket, in pairs, until each bucket has one sum: (buckets, rows)."""
    while True:
        order = np.argsort(bucket, kind="stable")
        bucket, sums = bucket[order], sums[order]
        fresh = np.ones(len(bucket), bool)
        fresh[1:] = bucket[1:] != bucket[:-1]
        if fresh.all():
            return bucket, sums
        place = np.arange(len(bucket)) - np.maximum.accumulate(np.where(fresh, np.arange(len(bucket)), 0))
        right = np.flatnonzero(place % 2)
        sums[right - 1] = add_rows(group, sums[right - 1], sums[right], threads)
        kept = place % 2 == 0
        bucket, sums = bucket[kept], sums[kept]


def add_rows(group: Group, left: Rows, right: Rows, threads: int) -> Rows:
    """Sums of projective rows, one by one."""
    width = lanes.lane_count(group)
    out = np.empty_like(left)

    def work(first: int) -> None:
        pair = [np.zeros((width, group.columns), np.float32) for _ in range(2)]
        count = len(left[first : first + width])
        for tile, rows in zip(pair, (left, right), strict=True):
            tile[:count] = rows[first : first + count]
        out[first : first + count] = np.asarray(lanes.add_pairs(*pair, group=group))[:count]

    in_threads(work, range(0, len(left), width), threads)
    return out
