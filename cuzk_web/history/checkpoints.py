"""Stored folds of the event log, so that the state at any moment is one of them and a few thousand rows.

A checkpoint is a cut through the log: how far each session's rows are folded in, and what they give, without what the
live page has forgotten by then. Any process may extend them; a lock of the database lets one do it at a time.
"""

from __future__ import annotations

import heapq
import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from django.db import transaction

from cuzk_web import formats
from cuzk_web.live.protocol import compact
from cuzk_web.live.retention import forget
from cuzk_web.live.rows import SITE
from prover.states import FleetState, Transition, apply, from_json

from . import log
from .models import Checkpoint

EVERY: Final = 4000  # rows between two checkpoints
SETTLED: Final = timedelta(minutes=1)  # what is younger may still get company of an earlier time
_LOCK: Final = 0x63757A6B_01  # "cuzk", 1


@dataclass
class Cut:
    """`heads` is how far each session is folded into `state`; nothing of it is later than `at_us`."""

    state: FleetState = field(default_factory=FleetState)
    heads: dict[str, int] = field(default_factory=dict)
    at_us: int = 0

    @property
    def at(self) -> datetime | None:
        """Its time; None when nothing is folded in."""
        return formats.from_us(self.at_us) if self.at_us else None

    def take(self, t: Transition) -> None:
        """Fold a row in."""
        apply(self.state, t)
        self.heads[t.session] = max(t.seq, self.heads.get(t.session, 0))
        self.at_us = max(self.at_us, t.at_us)


def last(until: datetime | None = None) -> Cut:
    """The newest checkpoint, or the newest that is no later than a moment; empty when there is none."""
    rows = Checkpoint.objects.order_by("-at")
    found = (rows if until is None else rows.filter(at__lte=until)).first()
    if found is None:
        return Cut()
    state = from_json(json.loads(zlib.decompress(bytes(found.state))))
    return Cut(state, dict(found.heads), formats.to_us(found.at))


def extend(most: int = 1_000_000, now: datetime | None = None) -> int:
    """Store a checkpoint for each EVERY rows that have settled, `most` at a time. Returns how many; 0 too when others
    are at it."""
    until = (now or datetime.now(UTC)) - SETTLED
    with transaction.atomic():
        ((mine,),) = log.query("SELECT pg_try_advisory_xact_lock(%s)", [_LOCK])
        return _extend(last(), until, most) if mine else 0


def _extend(cut: Cut, until: datetime, most: int) -> int:
    ahead = [(key, start, high) for key, start, high in log.sessions(cut.at, until) if high > cut.heads.get(key, 0)]
    if sum(high - cut.heads.get(key, 0) for key, _, high in ahead) < EVERY:
        return 0
    stored = 0
    for n, t in enumerate(_merged(cut.heads, ahead, until), 1):
        cut.take(t)
        if n % EVERY == 0:
            _store(cut)
            stored += 1
            if stored == most:
                break
    return stored


def _store(cut: Cut) -> None:
    at = formats.from_us(cut.at_us)
    forget(cut.state, cut.at_us)
    shown = {key for key, _, _ in log.sessions(at, at)}
    heads = {key: seq for key, seq in cut.heads.items() if key in shown}
    state = zlib.compress(compact(cut.state.to_json()).encode(), 1)
    Checkpoint.objects.create(at=at, heads=heads, state=state)


def _merged(low: Mapping[str, int], ahead: list[tuple[str, datetime, int]], until: datetime) -> Iterator[Transition]:
    """The rows of all sessions in the order of their times, as far as each session's own order allows."""
    queue: list[tuple[int, str, Transition | None, Iterator[Transition]]] = []
    for key, start, high in ahead:
        # a session is read when its turn comes, so that a long past does not stand in memory
        first = 0 if key == SITE else formats.to_us(start)
        queue.append((first, key, None, log.following(key, low.get(key, 0), high, until)))
    heapq.heapify(queue)
    while queue:
        reached, key, t, rest = heapq.heappop(queue)
        if t is not None:
            yield t
        following = next(rest, None)
        if following is not None:
            heapq.heappush(queue, (max(reached, following.at_us), key, following, rest))
