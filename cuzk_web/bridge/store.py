"""The database functions of a watched session (sql/watch.sql), over a connection that also keeps its name."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any, Final, LiteralString

import psycopg

from cuzk_web.live.source import conninfo
from prover.errors import CuzkError, InvalidInput
from prover.states import FRONT, Entity, FleetState, Transition

from .observer import Odd, Queued
from .status import Pipeline

STATEMENT_MS: Final = 12_000
LOCK_SPACE: Final = 0x77617463  # "watc"


class WatchedTwice(CuzkError):
    """Another process watches under this name, or a prover has it; give this one another name."""

    code = "watched_twice"


class NameInvalid(InvalidInput):
    """The name of a watched daemon is 1 to 100 characters without slash, colon or blank, and not "site"."""

    code = "name_invalid"


class WatchLost(CuzkError):
    """The watched session has ended in the database: nothing was heard of the daemon for too long."""

    code = "watch_lost"


class Store:
    """Raises psycopg.Error when the database is in trouble; then make a new one."""

    def __init__(self, source: str) -> None:
        """Raises WatchedTwice when another process watches under the name."""
        self.source = source
        options = f"-c statement_timeout={STATEMENT_MS} -c TimeZone=UTC"
        self._connection = psycopg.connect(conninfo(), autocommit=True, options=options)
        (mine,) = self._one("SELECT pg_try_advisory_lock(%s, hashtext(%s))", [LOCK_SPACE, source])
        if not mine:
            self.close()
            raise WatchedTwice(field=source)

    def close(self) -> None:
        """Give the name back."""
        self._connection.close()

    def now_us(self) -> int:
        """The database's time."""
        return int(self._one("SELECT to_us(clock_timestamp())", [])[0])

    def begin(self, host: str) -> str:
        """A new session. Raises WatchedTwice when a prover has the name, NameInvalid."""
        try:
            return str(self._one("SELECT watch_begin(%s, %s)", [self.source, host])[0])
        except psycopg.errors.UniqueViolation:
            raise WatchedTwice(field=self.source) from None
        except psycopg.errors.InvalidParameterValue:
            raise NameInvalid(field=self.source[:100]) from None

    def queue(self, session: str, pipeline: Pipeline) -> Queued:
        """The row of a job. Raises WatchLost."""
        words = [session, pipeline.job, pipeline.kind, len(pipeline.partitions)]
        query: LiteralString = "SELECT job, number, at_us, seq, detail, attempts FROM watch_job(%s, %s, %s, %s)"
        job, number, at_us, seq, detail, attempts = self._fenced(query, words)
        return Queued(str(job), number, at_us, seq, detail, {int(k): v for k, v in attempts.items()})

    def write(
        self, session: str, state: FleetState, moved: Sequence[Transition], odd: Iterable[Odd], gauges: dict[str, Any]
    ) -> None:
        """All of it or nothing, and a heartbeat. Raises WatchLost."""
        touched = {(t.entity, t.entity_id): None for t in moved}
        views = [_view(state, *thing) for thing in touched]
        rows = [{**asdict(t), "entity": t.entity.value, "detail": dict(t.detail)} for t in moved]
        values = [json.dumps(value) for value in (rows, views, gauges, [asdict(one) for one in odd])]
        self._fenced("SELECT watch_write(%s, %s, %s, %s, %s)", [session, *values])

    def end(self, session: str, reason: str) -> None:
        """The session is over."""
        self._one("SELECT watch_end(%s, %s)", [session, reason])

    def mark_lost(self) -> None:
        """As every web process does: a bridge may be alone."""
        self._one("SELECT mark_lost()", [])

    def _fenced(self, query: LiteralString, values: list[Any]) -> tuple[Any, ...]:
        try:
            return self._one(query, values)
        except psycopg.errors.NoDataFound:
            raise WatchLost(field=self.source) from None

    def _one(self, query: LiteralString, values: list[Any]) -> tuple[Any, ...]:
        row = self._connection.execute(query, values).fetchone()
        assert row is not None
        return row


def _view(state: FleetState, entity: Entity, key: str) -> dict[str, Any]:
    view = state.get(entity, key)
    return {
        "entity": entity.value, "id": key, "state": view.state, "at_us": view.since_us, "times": dict(view.times),
        "detail": dict(view.detail), "reason": view.reason, "seq": view.seq, "job": view.job,
        "partition": view.partition, "attempt_no": view.attempt_no, "worker": view.worker,
        "rank": int(view.state in FRONT),
    }  # fmt: skip
