"""The event log as the history reads it: by session and number, up to a moment."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import connection

from cuzk_web import formats
from cuzk_web.live.rows import COLUMNS, transition
from prover.states import Transition

MARGIN: Final = timedelta(hours=1)  # a session that ended so long before a cut has no row after it
SKEW: Final = timedelta(minutes=1)  # by which a prover's clock may be ahead of the database's
CHUNK: Final = 2000  # rows of one read

_SESSIONS: Final = """SELECT id::text, started_at, head_seq FROM session
    WHERE (started_at <= %s OR id = site_session()) AND (ended_at IS NULL OR ended_at >= %s)"""
_HEADS: Final = """SELECT k.id::text, transition_head(k.id, k.low, k.high, %s)
    FROM unnest(%s::uuid[], %s::bigint[], %s::bigint[]) AS k(id, low, high)"""
_BETWEEN: Final = f"""SELECT {COLUMNS} FROM unnest(%s::uuid[], %s::bigint[], %s::bigint[]) AS k(id, low, high)
    JOIN transition t ON t.session_id = k.id AND t.seq > k.low AND t.seq <= k.high
    ORDER BY t.session_id, t.seq LIMIT %s"""
_AFTER: Final = f"""SELECT {COLUMNS} FROM transition t
    WHERE t.session_id = %s AND t.seq > %s AND t.seq <= %s ORDER BY t.seq LIMIT %s"""


def query(sql: str, parameters: list[Any]) -> list[tuple[Any, ...]]:
    """All records of a statement."""
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return list(cursor.fetchall())


def sessions(after: datetime | None, until: datetime) -> list[tuple[str, datetime, int]]:
    """(id, start, highest number) of the sessions that may have rows after one moment and until another."""
    ended_after = datetime.min.replace(tzinfo=until.tzinfo) if after is None else after - MARGIN
    return query(_SESSIONS, [until + SKEW, ended_after])


def heads(low: Mapping[str, int], after: datetime | None, at: datetime) -> dict[str, int]:
    """session -> where its log stood at a moment, of the sessions that have rows after `low`."""
    found = [(key, low.get(key, 0), high) for key, _, high in sessions(after, at) if high > low.get(key, 0)]
    keys, lows, highs = [list(column) for column in zip(*found, strict=True)] if found else ([], [], [])
    stood = dict(query(_HEADS, [at, keys, lows, highs]))
    return {key: seq for key, seq in stood.items() if seq > low.get(key, 0)}


def between(low: Mapping[str, int], high: Mapping[str, int], most: int) -> list[Transition]:
    """The rows above `low` up to `high`, of the sessions of `high`, in each session's order; `most` at most."""
    keys = list(high)
    limits = [keys, [low.get(key, 0) for key in keys], [high[key] for key in keys], most]
    return [_transition(record) for record in query(_BETWEEN, limits)]


def following(session: str, low: int, high: int, until: datetime) -> Iterator[Transition]:
    """The rows of one session above `low`, oldest first, until the first that is later than `until`."""
    until_us = formats.to_us(until)
    while records := query(_AFTER, [session, low, high, CHUNK]):
        for t in map(_transition, records):
            if t.at_us > until_us:
                return
            yield t
            low = t.seq


def _transition(record: Sequence[Any]) -> Transition:
    *fields, detail = record
    return transition([*fields, json.loads(detail)])  # Django leaves JSON of its own statements as text
