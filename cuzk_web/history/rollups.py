"""Sums of the jobs that ended, by hour and by day (UTC): how many, how long they waited and took. Kept for good.

An hour is summed again when more jobs have ended in it than its sum says, however late they are told; never when they
are fewer, because old jobs leave and their sums stay.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from django.db import connection, transaction

from . import log
from .models import Rollup

RECENT: Final = timedelta(hours=3)  # looked at each time; all that is older, now and then
PERCENTILES: Final = (0.5, 0.95, 0.99)
_LOCK: Final = 0x63757A6B_02  # "cuzk", 2
_START: Final = "date_trunc(%(span)s, ended_at, 'UTC')"

_GROWN: Final = f"""SELECT found.start FROM (
      SELECT {_START} AS start, count(*) AS jobs FROM job
      WHERE ended_at >= date_trunc(%(span)s, %(since)s::timestamptz, 'UTC') GROUP BY 1) AS found
    LEFT JOIN job_rollup r ON r.span = %(span)s AND r.start = found.start AND r.kind = ''
    WHERE r.start IS NULL OR found.jobs > r.done + r.failed + r.cancelled ORDER BY 1"""
#: of some jobs: counts, and percentiles of milliseconds
SUMS: Final = f"""count(*) FILTER (WHERE state = 'done') AS done, count(*) FILTER (WHERE state = 'failed') AS failed,
      count(*) FILTER (WHERE state = 'cancelled') AS cancelled,
      coalesce(sum(partitions) FILTER (WHERE state = 'done'), 0) AS partitions,
      percentile_cont(ARRAY{list(PERCENTILES)}) WITHIN GROUP (
        ORDER BY extract(epoch FROM started_at - submitted_at)::float8 * 1000) AS wait_ms,
      percentile_cont(ARRAY{list(PERCENTILES)}) WITHIN GROUP (
        ORDER BY CASE WHEN state = 'done' THEN extract(epoch FROM ended_at - submitted_at)::float8 * 1000 END
      ) AS took_ms"""
_SUM: Final = f"""INSERT INTO job_rollup (span, start, kind, done, failed, cancelled, partitions, wait_ms, took_ms)
    SELECT %(span)s, {_START}, coalesce(kind, ''), {SUMS} FROM job
    WHERE ended_at >= %(start)s AND ended_at < %(end)s GROUP BY GROUPING SETS ((2, kind), (2))
    ON CONFLICT (span, start, kind) DO UPDATE SET done = excluded.done, failed = excluded.failed,
      cancelled = excluded.cancelled, partitions = excluded.partitions, wait_ms = excluded.wait_ms,
      took_ms = excluded.took_ms"""
LENGTH: Final = {Rollup.HOUR: timedelta(hours=1), Rollup.DAY: timedelta(days=1)}


def roll_up(every: bool = False, now: datetime | None = None) -> int:
    """Sum the hours and days in which more jobs have ended. Returns how many; 0 too when others are at it."""
    since = datetime(1980, 1, 1, tzinfo=UTC) if every else (now or datetime.now(UTC)) - RECENT
    with transaction.atomic():
        if not log.query("SELECT pg_try_advisory_xact_lock(%s)", [_LOCK])[0][0]:
            return 0
        return sum(_sum(span, since) for span in LENGTH)


def _sum(span: str, since: datetime) -> int:
    with connection.cursor() as cursor:
        cursor.execute(_GROWN, {"span": span, "since": since})
        starts = [start for (start,) in cursor.fetchall()]
        for start in starts:
            cursor.execute(_SUM, {"span": span, "start": start, "end": start + LENGTH[span]})
    return len(starts)


def between(since: datetime, until: datetime, kind: str = "") -> dict[str, Any]:
    """The same sums of the jobs that ended in any period, of one kind or (when empty) of all."""
    names = ("done", "failed", "cancelled", "partitions", "wait_ms", "took_ms")
    where = "ended_at >= %s AND ended_at < %s" + (" AND kind = %s" if kind else "")
    (record,) = log.query(f"SELECT {SUMS} FROM job WHERE {where}", [since, until, *([kind] if kind else [])])
    return dict(zip(names, record, strict=True))
