"""Spans of time, as (from, to) in microseconds: put together, cut out of each other, measured."""

from __future__ import annotations

from collections.abc import Iterable

Span = tuple[int, int]


def union(spans: Iterable[Span]) -> list[Span]:
    """The same time without overlaps, in order."""
    found: list[Span] = []
    for start, end in sorted(span for span in spans if span[0] < span[1]):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((start, end))
    return found


def without(spans: Iterable[Span], taken: Iterable[Span]) -> list[Span]:
    """What is left of some spans when others are cut out."""
    left = union(spans)
    for start, end in union(taken):
        left = [part for a, b in left for part in ((a, min(b, start)), (max(a, end), b)) if part[0] < part[1]]
    return left


def within(spans: Iterable[Span], low: int, high: int) -> list[Span]:
    """The part of some spans that lies in a period."""
    return [(max(a, low), min(b, high)) for a, b in spans if a < high and b > low]


def length_ms(spans: Iterable[Span]) -> float:
    """How long they last together; they must not overlap."""
    return sum(b - a for a, b in spans) / 1000
