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
from prover.algebra.kernels import in_threads, shares, tiles
from prover.algebra.mesh import dealt
from prover.algebra.points import Rows
from prover.algebra.scratch import scratch
from prover.algebra.table import Entries, Table

Ints = npt.NDArray[np.int64]

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


def task_width(width: int, batch: int, count: int, threads: int) -> int:
    """Lanes of one task of `count`: a full batch of tiles of `width` for each device, or less where that would leave
    threads idle."""
    own = -(-count // (width * shares() * max(threads, 1)))
    return shares() * width * min(max(own, 1), batch)


def add_runs(table: Table, runs: Runs, threads: int = 1) -> Rows:
    """The sum of each run: projective rows float32[runs, columns]."""
    out = np.empty((len(runs.bucket), table.group.columns), np.float32)
    width = task_width(lanes.lane_count(table.group), tiles().batch, len(out), threads)

    def work(first: int) -> None:
        part = slice(first, first + width)
        out[part] = _add_batch(table, runs.entries, runs.start[part], runs.length[part])

    in_threads(work, range(0, len(out), width), threads)
    return out


def _add_batch(table: Table, entries: Entries, start: Ints, length: Ints) -> Rows:
    """The sums of up to a batch of runs, the longest first: rows float32[runs, columns]."""
    group, sizes = table.group, tiles()
    chosen = scratch("entries", (shares() * sizes.batch, sizes.steps, lanes.lane_count(group)), np.int32)
    lane = dealt(len(start), shares(), sizes.batch * lanes.lane_count(group))
    starts, lengths = (_on_lanes(values, lane) for values in (start, length))
    state = lanes.identities(group, 1)
    rows = np.empty(0, np.float32)
    for done in range(0, int(length[0]), sizes.steps):
        steps = _choose(chosen.host, entries, starts, lengths, done)
        state, sums = lanes.add_steps(state, table.gather(chosen.host, steps), chosen.array(), steps, group=group)
        rows = np.asarray(sums)  # waits: the buffers of this call are written again by the next
    return rows.reshape(-1, group.columns)[lane]


def _on_lanes(values: Ints, lane: Ints) -> Ints:
    """Values by their lanes, up to the last lane that has one; 0 where there is none."""
    placed = np.zeros(1 + lane.max(), np.int64)
    placed[lane] = values
    return placed


def _choose(chosen: Entries, entries: Entries, start: Ints, length: Ints, done: int) -> npt.NDArray[np.int32]:
    """Write each lane's next entries to chosen[B, S, L], 0 beyond its run; the number of steps of each tile, the first
    lane of which has its longest run."""
    batch, steps, width = chosen.shape
    counts = np.zeros(batch, np.int32)
    for t, first in enumerate(range(0, len(start), width)):
        own = slice(first, first + width)
        counts[t] = count = np.clip(length[first] - done, 0, steps)
        step = done + np.arange(count)[:, None]
        inside = step < length[own]
        chosen[t, :count, inside.shape[1] :] = 0
        chosen[t, :count, : inside.shape[1]] = np.where(inside, entries[np.where(inside, start[own] + step, 0)], 0)
    return counts


def fold(group: Group, bucket: Ints, sums: Rows, threads: int = 1) -> Ints:
    """Add up the runs of one bucket, in pairs, in place, until each bucket has one sum; the rows that hold these
    sums."""
    shared = np.flatnonzero(np.bincount(bucket, minlength=1)[bucket] > 1)
    alone = np.ones(len(bucket), bool)
    alone[shared] = False
    rows = shared[np.argsort(bucket[shared], kind="stable")]
    while True:
        fresh = np.ones(len(rows), bool)
        fresh[1:] = bucket[rows[1:]] != bucket[rows[:-1]]
        if fresh.all():
            return np.append(np.flatnonzero(alone), rows)
        place = np.arange(len(rows)) - np.maximum.accumulate(np.where(fresh, np.arange(len(rows)), 0))
        right = np.flatnonzero(place % 2)
        sums[rows[right - 1]] = add_rows(group, sums[rows[right - 1]], sums[rows[right]], threads)
        rows = rows[place % 2 == 0]


def add_rows(group: Group, left: Rows, right: Rows, threads: int) -> Rows:
    """Sums of projective rows, one by one."""
    width = shares() * lanes.lane_count(group)
    out = np.empty_like(left)

    def work(first: int) -> None:
        pair = [np.zeros((width, group.columns), np.float32) for _ in range(2)]
        count = len(left[first : first + width])
        for tile, rows in zip(pair, (left, right), strict=True):
            tile[:count] = rows[first : first + count]
        out[first : first + count] = np.asarray(lanes.add_pairs(*pair, group=group))[:count]

    in_threads(work, range(0, len(left), width), threads)
    return out
