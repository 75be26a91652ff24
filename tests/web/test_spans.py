"""Spans of time against the seconds that they hold."""

from __future__ import annotations

import itertools
import random

from cuzk_web.history.spans import Span, length_ms, union, within, without


def seconds(spans: list[Span]) -> set[int]:
    return {second for start, end in spans for second in range(start, end)}


def some(chance: random.Random) -> list[Span]:
    starts = [chance.randint(0, 40) for _ in range(chance.randint(0, 6))]
    return [(start, start + chance.randint(-1, 9)) for start in starts]


def test_spans_are_the_seconds_in_them() -> None:
    chance = random.Random(3)
    for _ in range(500):
        a, b = some(chance), some(chance)
        joined = union(a)
        assert seconds(joined) == seconds(a)
        assert all(one[1] < next_one[0] for one, next_one in itertools.pairwise(joined))
        assert length_ms(joined) == len(seconds(a)) / 1000
        assert seconds(without(a, b)) == seconds(a) - seconds(b)
        assert seconds(within(joined, 10, 30)) == seconds(a) & set(range(10, 30))
