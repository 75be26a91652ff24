"""The weighted sum of buckets, sum (b + 1) S_b, by running sums on the lanes.

Cut n items into lanes of s consecutive ones. A lane gives T_m = sum x_i and V_m = sum i x_i (i within the lane), so
sum i x_i = sum V_m + s * sum m T_m, and the same step serves the rest: three levels take 2^15 buckets to one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from prover.algebra import lanes, small
from prover.algebra.buckets import Ints
from prover.algebra.curve import Group
from prover.algebra.kernels import in_threads, tiles
from prover.algebra.points import Rows


@dataclass(frozen=True)
class Level:
    """2^log2 items a lane."""

    log2: int

    @property
    def items(self) -> int:
        return 1 << self.log2


def _levels(log2: int) -> list[Level]:
    """How 2^log2 buckets are cut: about 32 items a lane, level by level, down to one lane."""
    count = max(1, -(-log2 // 5))
    return [Level(log2 * (i + 1) // count - log2 * i // count) for i in range(count)]


def weighted_sums(group: Group, bucket: Ints, sums: Rows, sets: int, log2: int, threads: int = 1) -> list[small.Point]:
    """For each of `sets` sets of 2^log2 buckets, sum (b + 1) S_b. `bucket` numbers are set * 2^log2 + b; absent ones
    are zero."""
    plain = np.zeros(sets << log2, np.int64)
    plain[bucket] = np.arange(1, len(bucket) + 1)
    pool = np.concatenate([_infinity(group), sums])
    families = [_Family(pool, plain.reshape(sets, -1))]
    weights: list[int] = []
    for level in _levels(log2):
        families = _reduce(group, families, level, threads)
        weights.append(level.log2)
    return _combine(group, families, weights)


@dataclass(frozen=True)
class _Family:
    """Items as numbers of rows in a pool: index int[sets, n]."""

    pool: Rows
    index: Ints


def _infinity(group: Group) -> Rows:
    return group.identity.astype(np.float32).reshape(1, -1)


def _reduce(group: Group, families: list[_Family], level: Level, threads: int) -> list[_Family]:
    """One level: family 0 is weighted by its index and gives two (T, V), the others are plain sums and give one
    each."""
    offsets = np.cumsum([0] + [len(f.pool) for f in families])
    pool = families[0].pool if len(families) == 1 else np.concatenate([f.pool for f in families])
    index = np.concatenate([(f.index + o).reshape(-1, level.items) for f, o in zip(families, offsets, strict=False)])
    plain, weighted = _run(group, pool, index, threads)
    sets = len(families[0].index)
    shape = (sets, -1)
    rows = np.arange(len(index)).reshape(len(families), -1)
    new = [_Family(plain, r.reshape(shape)) for r in rows]
    return [new[0], *new[1:], _Family(weighted, rows[0].reshape(shape))]


def _run(group: Group, pool: Rows, index: Ints, threads: int) -> tuple[Rows, Rows]:
    """Lanes index[lanes, items] of rows of the pool -> (sum x_i, sum i x_i), projective rows each."""
    width = lanes.lane_count(group)
    out = np.empty((2, len(index), group.columns), np.float32)

    def work(first: int) -> None:
        part = index[first : first + width]
        out[:, first : first + len(part)] = _run_tile(group, pool, part)[:, : len(part)]

    in_threads(work, range(0, len(index), width), threads)
    return out[0], out[1]


def _run_tile(group: Group, pool: Rows, index: Ints) -> npt.NDArray[np.float32]:
    steps, width = tiles().steps, lanes.lane_count(group)
    padded = np.zeros((index.shape[1] + -index.shape[1] % steps, width), np.int64)
    padded[: index.shape[1], : len(index)] = index.T[::-1]
    start = lanes.identities(group)
    state = np.stack([start, start])
    for done in range(0, index.shape[1], steps):
        count = np.int32(min(steps, index.shape[1] - done))
        state = lanes.running_sums(state, pool[padded[done : done + steps]], count, group=group)
    return np.stack([np.asarray(lanes.to_rows(s)) for s in state])


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
