"""The weighted sum of buckets, sum (b + 1) S_b, by running sums on the lanes.

Cut n items into lanes of s consecutive ones. A lane gives T_m = sum x_i and V_m = sum i x_i (i within the lane), so
sum i x_i = sum V_m + s * sum m T_m, and the same step serves the rest: three levels take 2^15 buckets to one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from prover.algebra import lanes, small
from prover.algebra.buckets import Ints, task_width
from prover.algebra.curve import Group
from prover.algebra.kernels import in_threads, shares, tiles
from prover.algebra.mesh import dealt
from prover.algebra.points import Rows
from prover.algebra.table import Table

#: items a lane takes at most, as a power of two
_MAX_LOG2: Final = 5


def _levels(log2: int) -> list[int]:
    """How 2^log2 items are cut: 2^l items a lane, level by level, down to one lane."""
    count = max(1, -(-log2 // _MAX_LOG2))
    return [log2 * (i + 1) // count - log2 * i // count for i in reversed(range(count))]


@dataclass(frozen=True)
class _Family:
    """Items as numbers of rows in a pool whose row 0 is infinity: index int[sets, n]."""

    pool: Rows
    index: Ints


def weighted_sums(group: Group, number: Ints, sums: Rows, threads: int = 1) -> list[small.Point]:
    """For each set of buckets, sum (b + 1) S_b.

    number int[sets, 2^l]: S_b is row number - 1 of the projective rows `sums`, or zero where the number is 0.
    """
    families = [_Family(_with_infinity(group, [sums]), number)]
    levels = _levels(number.shape[1].bit_length() - 1)
    for level in levels:
        families = _reduce(group, families, 1 << level, threads)
    return _combine(group, families, levels)


def _with_infinity(group: Group, rows: list[Rows]) -> Rows:
    return np.concatenate([group.identity.astype(np.float32).reshape(1, -1), *rows])


def _reduce(group: Group, families: list[_Family], items: int, threads: int) -> list[_Family]:
    """One level: family 0 is weighted by its index and gives two (T, V), the others are plain sums and give one
    each."""
    pool = families[0].pool
    index = np.concatenate([f.index.reshape(-1, items) for f in families])
    plain, weighted = _run(Table.of_projective(group, pool), index, threads)
    pool = _with_infinity(group, [plain, weighted[: families[0].index.size // items]])
    sets, own = len(families[0].index), families[0].index.size // items
    rows = 1 + np.arange((len(families) + 1) * own).reshape(len(families) + 1, sets, -1)
    return [_Family(pool, r) for r in rows]


def _run(table: Table, index: Ints, threads: int) -> tuple[Rows, Rows]:
    """Lanes index[lanes, items] of rows of the table -> (sum x_i, sum i x_i), projective rows each."""
    out = np.empty((2, len(index), table.group.columns), np.float32)
    width = task_width(lanes.sums_lane_count(table.group), 2 * tiles().batch, len(index), threads)

    def work(first: int) -> None:
        part = index[first : first + width]
        out[:, first : first + width] = _run_batch(table, part)

    in_threads(work, range(0, len(index), width), threads)
    return out[0], out[1]


def _run_batch(table: Table, index: Ints) -> Rows:
    """Up to a batch of lanes: float32[2, lanes, columns]."""
    group, sizes = table.group, tiles()
    width, own, items = lanes.sums_lane_count(group), 2 * sizes.batch, index.shape[1]
    batch, lane = shares() * own, dealt(len(index), shares(), own * width)
    state = lanes.identities(group, 2)
    rows = np.empty(0, np.float32)
    padded = np.zeros((batch * width, items), np.int32)
    padded[lane] = index[:, ::-1]
    busy = np.bincount(lane // width, minlength=batch) > 0
    entries = padded.reshape(batch, width, items).transpose(0, 2, 1)
    for done in range(0, items, sizes.steps):
        chosen = np.zeros((batch, sizes.steps, width), np.int32)
        part = entries[:, done : done + sizes.steps]
        chosen[:, : part.shape[1]] = part
        steps = np.where(busy, part.shape[1], 0).astype(np.int32)
        state, sums = lanes.running_sums(state, table.gather(chosen, steps), steps, group=group)
        rows = np.asarray(sums)  # waits: the gathered rows are overwritten by the next call
    return rows.transpose(1, 0, 2, 3).reshape(2, -1, group.columns)[:, lane]


def _combine(group: Group, families: list[_Family], weights: list[int]) -> list[small.Point]:
    """Families T, V1, V2, .. of one item a set -> T + V1 + 2^w1 (V2 + 2^w2 (V3 + ...))."""
    sets = [small.from_rows(group, f.pool[f.index[:, 0]]) for f in families]
    totals = []
    for total, *levels in zip(*sets, strict=True):
        inner = small.INFINITY
        for value, weight in zip(reversed(levels), reversed(weights), strict=True):
            inner = small.add(small.shift(inner, weight, group.degree), value, group.degree)
        totals.append(small.add(total, inner, group.degree))
    return totals
