"""The hub's own connections to Postgres: one only listens, the others only read. Never Django's, never a pool."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, LiteralString

import psycopg
from django.db import connections
from psycopg.conninfo import make_conninfo

from cuzk_web.patience import PatientConnection

from .rows import COLUMNS, SITE

Connection = psycopg.AsyncConnection[tuple[Any, ...]]

log = logging.getLogger(__name__)

CHANNEL: Final = "cuzk"
RETRY_S: Final = (0.2, 0.5, 1.0, 2.0, 5.0)  # between attempts to connect again
CONNECT_S: Final = 10  # a connection that takes longer is given up
STATEMENT_MS: Final = 10_000
# a server that has gone without a word is noticed by who only listens, too
_KEEPALIVE: Final = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3}

# A session that has ended is fenced: its head moves no more. So those are read that are open, those that were when we
# last read, and those that ended since, with a margin; not every session that ever was.
_HEADS: Final = """SELECT s.id::text, s.head_seq, s.ended_at IS NULL,
      (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
    FROM (SELECT) one LEFT JOIN session s
      ON s.ended_at IS NULL OR s.ended_at > to_timestamp(%s) OR s.id = ANY(%s::uuid[])"""
_ROWS: Final[LiteralString] = f"""SELECT {COLUMNS}
    FROM unnest(%s::uuid[], %s::bigint[], %s::bigint[]) AS k(id, low, high)
    JOIN transition t ON t.session_id = k.id AND t.seq > k.low AND t.seq <= k.high
    ORDER BY t.session_id, t.seq"""
_PULSE: Final = """SELECT s.id::text, (extract(epoch FROM s.heartbeat_at) * 1000000)::bigint,
      (extract(epoch FROM s.tick_at) * 1000000)::bigint, (extract(epoch FROM sm.at) * 1000000)::bigint, sm.gauges,
      (SELECT count(*) FROM (SELECT FROM anomaly a WHERE a.session_id = s.id LIMIT %s) counted)
    FROM session s LEFT JOIN LATERAL
      (SELECT at, gauges FROM sample WHERE session_id = s.id ORDER BY at DESC LIMIT 1) sm ON true
    WHERE s.id = ANY(%s::uuid[])"""


_ALERTS: Final = """SELECT severity, count(*), (array_agg(title ORDER BY opened_at DESC))[1]
    FROM alert WHERE closed_at IS NULL GROUP BY severity ORDER BY severity"""
MOST_ANOMALIES: Final = 10_000  # of a session are counted; who has more has too many
MARGIN_S: Final = 60  # by which a session's end may be stamped before it is committed
EVERY_S: Final = 60.0  # every session is read as often: whatever was missed is found


@dataclass(frozen=True, slots=True)
class Heads:
    """session -> highest seq, of those that were read; which are open; whether all were read; the database's time."""

    seqs: Mapping[str, int]
    open: frozenset[str]
    all: bool
    now_us: int


def conninfo(connect_s: int = CONNECT_S) -> str:
    """How Django's default database is reached."""
    settings = connections["default"].settings_dict
    names = {"NAME": "dbname", "USER": "user", "PASSWORD": "password", "HOST": "host", "PORT": "port"}
    given = {theirs: settings[ours] for ours, theirs in names.items() if settings.get(ours)}
    ours = {"application_name": "cuzk hub", "connect_timeout": connect_s}
    return make_conninfo(**_KEEPALIVE | settings["OPTIONS"] | given | ours)


async def connect(kind: type[Connection] = PatientConnection, connect_s: int = CONNECT_S) -> Connection:
    """A connection of one's own, in autocommit, that no statement can hold for long.

    A connect that is cut off leaves the server waiting for a password for a minute: so one that was begun is finished,
    and closed when nobody wants it any more.
    """
    options = f"-c statement_timeout={STATEMENT_MS} -c TimeZone=UTC"
    opening = asyncio.create_task(kind.connect(conninfo(connect_s), autocommit=True, options=options))
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        while not opening.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([opening])
        if opening.exception() is None:
            await opening.result().close()
        raise


class Reader:
    """Reads heads, rows and gauges; connects again when the connection was lost (the caller sees the error once)."""

    def __init__(self) -> None:
        self._connection: Connection | None = None
        self._heads: Heads | None = None  # as they were read last; None: of this connection never
        self._every_at = 0.0  # when all were

    async def heads(self) -> Heads:
        """What there is to read: the heads of all sessions that may have moved since the last call."""
        last = self._heads
        every = last is None or time.monotonic() - self._every_at > EVERY_S
        if every or last is None:
            self._every_at = time.monotonic()
            records = await self._all(_HEADS, (0, []))
        else:
            records = await self._all(_HEADS, (last.now_us / 1e6 - MARGIN_S, list(last.open)))
        seqs = {key: seq for key, seq, _, _ in records if key is not None}
        opened = frozenset(key for key, _, is_open, _ in records if key is not None and is_open)
        self._heads = Heads(seqs, opened, every, records[0][3])
        return self._heads

    async def rows(self, low: Mapping[str, int], high: Mapping[str, int]) -> list[tuple[Any, ...]]:
        """Records of COLUMNS with low < seq <= high, of the sessions of `low`, sorted by (session, seq)."""
        return await self._all(_ROWS, (list(low), list(low.values()), [high[key] for key in low]))

    async def pulse(self, sessions: Sequence[str]) -> dict[str, dict[str, Any]]:
        """By session: when it last beat, when its engine last ticked, its newest sample, its count of anomalies.

        No more than MOST_ANOMALIES are counted.
        """
        records = await self._all(_PULSE, (MOST_ANOMALIES, list(sessions)))
        return {
            key: {"heartbeat_us": beat, "tick_us": tick, "sample_us": at, "gauges": gauges, "anomalies": anomalies}
            for key, beat, tick, at, gauges, anomalies in records
            if key != SITE
        }

    async def alerts(self) -> dict[str, Any]:
        """How many alerts are open, by severity, and the title of the gravest that is newest."""
        records = await self._all(_ALERTS, ())
        return {severity: count for severity, count, _ in records} | {"title": records[0][2] if records else ""}

    async def mark_lost(self) -> None:
        """Let the database declare sessions lost whose lease has run out; it decides on its own clock."""
        await self._all("SELECT mark_lost()", ())

    async def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            await self._connection.close()
            self._connection = self._heads = None

    async def _all(self, query: LiteralString, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
        if self._connection is None:
            self._connection = await connect()
        try:
            cursor = await self._connection.execute(query, parameters)
            return await cursor.fetchall()
        except (psycopg.OperationalError, asyncio.CancelledError):
            await self.close()
            raise


async def listen(on_news: Callable[[], None]) -> None:
    """Call `on_news` at each notification, and after each connect: what came before has to be read. For ever."""
    failures = 0
    while True:
        try:
            # one that listens may hear nothing for ever
            async with await connect(psycopg.AsyncConnection) as connection:
                await connection.execute(f"LISTEN {CHANNEL}")
                failures = 0
                on_news()
                async for _ in connection.notifies():
                    on_news()
        except psycopg.Error as error:
            log.warning("the listener lost its connection: %s", str(error).strip())
        await asyncio.sleep(RETRY_S[min(failures, len(RETRY_S) - 1)])
        failures += 1
