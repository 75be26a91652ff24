"""What people do with the database from the command line: submit, wait, fetch the proof, look at the fleet."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import psycopg
from psycopg import sql

from prover.errors import CuzkError
from prover.filecoin.request import ProofRequest
from prover.states import JOB_ENDS, Command, Entity, FleetState, Job, Lifecycle, Transition, View, from_json

from .connection import connect, is_away, is_full
from .errors import DatabaseAway, DatabaseFull, ProverUnknown, RequestConflict

LOOK_EVERY_S = 1.0  # also when nobody notifies
_SUBMIT = """
SELECT outcome, job::text, number, state, digest
FROM submit_job(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
"""
_REQUEST_JOB = "SELECT state, outcome, retried_as::text FROM request_job(%s, %s, NULL, %s, %s::jsonb)"
_JOB_COLUMNS = """
SELECT id::text, number, state, partitions, partitions_done, local_keys, error_code, error_message, request_id, timings
FROM job
"""
_JOB = f"{_JOB_COLUMNS} WHERE id = %s"
#: the newest of a request id; an id of a job counts when no request has it
_FIND = f"""{_JOB_COLUMNS} WHERE request_id = %s OR id::text = %s
ORDER BY request_id = %s DESC, number DESC LIMIT 1
"""
#: of a job among those that wait, from 1; 0 when it waits no more
_POSITION = """
SELECT count(*) FROM job own JOIN job ahead
    ON (-ahead.priority, coalesce(ahead.deadline, 'infinity'), ahead.number)
        <= (-own.priority, coalesce(own.deadline, 'infinity'), own.number)
WHERE own.id = %s AND own.state = 'queued' AND own.session_id IS NULL
    AND ahead.state = 'queued' AND ahead.session_id IS NULL AND ahead.ended_at IS NULL
"""
_SESSIONS = """
SELECT DISTINCT ON (prover) id::text, prover, state,
       extract(epoch FROM clock_timestamp() - heartbeat_at)::float8,
       (SELECT gauges FROM sample WHERE session_id = session.id ORDER BY at DESC LIMIT 1)
FROM session WHERE id <> site_session()
ORDER BY prover, started_at DESC
"""
_MOVES = """
SELECT j.request_id, t.session_id::text, t.seq, to_us(t.at), t.mono_ns, t.entity, t.entity_id, t.old, t.new,
       t.job::text, t.partition, t.attempt_no, t.worker, t.reason, t.detail
FROM transition t JOIN job j ON j.id = t.job
WHERE t.entity = 'attempt' AND {} = %s
ORDER BY t.at, t.session_id, t.seq
"""
_JOB_START = "SELECT to_us(submitted_at) FROM job WHERE id = %s"
_LAST_SESSION = """
SELECT to_us(started_at), id::text FROM session
WHERE id <> site_session() AND (%s::text IS NULL OR prover = %s) ORDER BY started_at DESC LIMIT 1
"""
_NOW = "SELECT to_us(clock_timestamp()), extract(epoch FROM lease_length())::float8"
_VIEWS = """
SELECT entity, id, state, times, detail, reason, session::text, seq, job::text, partition, attempt_no, worker
FROM mirror
WHERE entity IN ('session', 'device', 'worker', 'admin', 'holding')
   OR entity IN ('job', 'attempt') AND job IN (
       SELECT id FROM job WHERE ended_at IS NULL
       UNION SELECT job_id FROM attempt WHERE state NOT IN ('done', 'failed', 'cancelled', 'skipped', 'lost'))
"""


class DatabaseUnusable(CuzkError):
    """The database has not cuzk's tables, or this login may not use them."""

    code = "database_unusable"


class JobUnknown(CuzkError):
    """There is no such job, or no proof of it."""

    code = "job_unknown"


class WaitedTooLong(CuzkError):
    """The job did not end, or a prover not answer, in the time that was given; it goes on."""

    code = "waited_too_long"


@dataclass(frozen=True, slots=True)
class Submitted:
    """The job of a request; `created` is False when it was there already."""

    job: str
    number: int
    state: str
    created: bool


@dataclass(frozen=True, slots=True)
class JobRow:
    """What a submitter sees of a job."""

    job: str
    number: int
    state: str
    partitions: int
    partitions_done: int
    local_keys: bool | None
    error_code: str | None
    error_message: str | None
    request_id: str
    timings: Mapping[str, int]  # milliseconds by phase, once it has ended

    @property
    def ended(self) -> bool:
        return self.state in JOB_ENDS

    @property
    def done(self) -> bool:
        return self.state == Job.DONE


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of an action of a job: done, pending (its prover was asked) or refused, for the reason in `outcome`."""

    state: str
    outcome: str
    retried_as: str | None = None  # the new job of a retry


@dataclass(frozen=True, slots=True)
class SessionRow:
    """The last session of a prover: how old its heartbeat is, on the database's clock, and its last gauges."""

    session: str
    prover: str
    state: str
    heartbeat_age: float | None  # seconds
    gauges: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Fleet:
    """Everything that is open, at one moment."""

    state: FleetState
    sessions: tuple[SessionRow, ...]
    now_us: int
    lease_s: float  # seconds: a heartbeat that is older says that contact was lost

    def has_lost_contact(self, session: SessionRow) -> bool:
        """Whether a prover that should be there has not been heard of for a whole lease."""
        age = session.heartbeat_age
        return session.state == Lifecycle.ONLINE and (age is None or age > self.lease_s)


@dataclass(frozen=True, slots=True)
class Scope:
    """The moves of one job, or those of one session."""

    column: Literal["job", "session_id"]
    value: str


class Client:
    """A connection that is made when it is needed. Raises DatabaseAway, DatabaseFull or DatabaseUnusable."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: psycopg.Connection[Any] | None = None

    @property
    def is_open(self) -> bool:
        """Whether there is a connection; it may have broken since its last use."""
        return self._connection is not None

    def close(self) -> None:
        """Also when it is not open."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def submit(self, request: ProofRequest, by: str, deadline: datetime | None = None) -> Submitted:
        """Queue a request, or find its live or completed job. Raises RequestConflict for another content."""
        values = [
            request.request_id, request.digest, request.kind.value, request.sector_size, request.registered_proof,
            int(request.priority), deadline, request.miner_id, request.sector_number, request.partition_index,
            request.partition_count, by, request.canonical,
        ]  # fmt: skip
        outcome, job, number, state, digest = self._row(_SUBMIT, values)
        if outcome == "conflict":
            text = f"job {number} has this id and proves content {bytes(digest).hex()}, not {request.digest.hex()}"
            raise RequestConflict(f"{text}; give the request another id", field="request_id")
        return Submitted(job, number, state, outcome == "created")

    def job(self, job: str) -> JobRow:
        """The job as it is now. Raises JobUnknown."""
        return JobRow(*self._row(_JOB, [job]))

    def request_job(self, action: str, job: str, by: str, arguments: Mapping[str, Any]) -> Answer:
        """Ask for an action of a job (`states.JOB_ACTIONS`): done at once, or by who holds it. Raises JobUnknown."""
        try:
            state, outcome, retried_as = self._row(_REQUEST_JOB, [action, job, by, json.dumps(dict(arguments))])
        except DatabaseUnusable as error:
            if isinstance(error.__cause__, psycopg.errors.NoDataFound):
                raise JobUnknown(job) from error
            raise
        return Answer(state, outcome or "", retried_as)

    def request_key(self, action: str, prover: str, name: str, by: str) -> str:
        """Ask a prover for an action of a key (`states.ACTIONS`); the command's id. Raises ProverUnknown."""
        try:
            values = [action, f"{prover}:{name}", by]
            return str(self._row("SELECT request_command(%s, %s, NULL, %s, '{}', 'key')", values)[0])
        except DatabaseUnusable as error:
            if isinstance(error.__cause__, psycopg.errors.NoDataFound):
                raise ProverUnknown(f"no prover {prover!r} has been on this database") from error
            raise

    def answer(self, command: str, timeout: float | None = None) -> Answer:
        """The answer to a command, waiting for it; outages are waited through. Raises WaitedTooLong."""
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            with suppress(DatabaseAway):
                state, outcome = self._row("SELECT state, detail ->> 'outcome' FROM command WHERE id = %s", [command])
                if state in (Command.DONE, Command.REFUSED):
                    return Answer(state, outcome or "")
            if until is not None and time.monotonic() > until:
                raise WaitedTooLong(f"the prover has not answered after {timeout:g} s; it still may")
            self._sleep(until)

    def find(self, name: str) -> JobRow:
        """The newest job of a request id, or the job that has this id itself. Raises JobUnknown."""
        if "\0" in name:  # Postgres keeps none
            raise JobUnknown(name.replace("\0", " "))
        return JobRow(*self._row(_FIND, [name, name, name]))

    def position(self, job: str) -> int:
        """The place of a job among those that wait for a prover, from 1; 0 when it waits no more."""
        return int(self._row(_POSITION, [job])[0])

    def wait(self, job: str, timeout: float | None = None, on_look: Callable[[JobRow], None] | None = None) -> JobRow:
        """The job once it has ended; outages of the database are waited through. Raises WaitedTooLong."""
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            with suppress(DatabaseAway):
                row = self.job(job)
                if on_look is not None:
                    on_look(row)
                if row.ended:
                    return row
            if until is not None and time.monotonic() > until:
                raise WaitedTooLong(f"job {job} has not ended after {timeout:g} s")
            self._sleep(until)

    def proof(self, job: str) -> bytes:
        """The delivered proof, 192 bytes a partition. Raises JobUnknown."""
        return bytes(self._row("SELECT proof FROM delivery WHERE job_id = %s", [job])[0])

    def fleet(self) -> Fleet:
        """Sessions, devices, workers, keys, and the jobs that have not ended, in one consistent look."""
        with self._open() as connection, connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            sessions = tuple(SessionRow(*row) for row in connection.execute(_SESSIONS))
            ended = dict(connection.execute("SELECT kind || ' ' || state, count FROM counter").fetchall())
            views = connection.execute(_VIEWS).fetchall()
            [(now_us, lease_s)] = connection.execute(_NOW).fetchall()
            heads = dict(connection.execute("SELECT id::text, head_seq FROM session").fetchall())
        state = FleetState(heads=heads, ended=ended)
        for entity, key, *fields in views:
            state.views[Entity(entity)][key] = View(*fields)
        return Fleet(from_json(state.to_json()), sessions, now_us, lease_s)

    def scope_of_job(self, name: str) -> tuple[int, Scope]:
        """When a job was submitted (microseconds), and what happened to it. Raises JobUnknown."""
        job = self.find(name).job
        return int(self._row(_JOB_START, [job])[0]), Scope("job", job)

    def scope_of_session(self, prover: str | None = None) -> tuple[int, Scope] | None:
        """When the last session of a prover, or of all, began, and what happened in it; None when there is none."""
        with self._open() as connection:
            row = connection.execute(_LAST_SESSION, [prover, prover]).fetchone()
        return None if row is None else (row[0], Scope("session_id", row[1]))

    def attempt_moves(self, scope: Scope) -> Iterator[tuple[str, Transition]]:
        """The moves of attempts, with the request ids of their jobs, in the order of their times; as they are read."""
        query = sql.SQL(_MOVES).format(sql.Identifier("t", scope.column))
        with self._open() as connection, connection.transaction(), connection.cursor("moves") as cursor:
            for name, *row in cursor.execute(query, [scope.value]):
                yield name, Transition.from_row(row)

    def _row(self, query: str, values: list[Any]) -> tuple[Any, ...]:
        with self._open() as connection:
            # prepared: else the statement's time runs from its text on, while its values still travel
            row: tuple[Any, ...] | None = connection.execute(query, values, prepare=True).fetchone()
        if row is None:
            raise JobUnknown(str(values[0]))
        return row

    def _sleep(self, until: float | None) -> None:
        """Until something happens anywhere, or the next look is due."""
        pause = LOOK_EVERY_S if until is None else max(0.0, min(LOOK_EVERY_S, until - time.monotonic()))
        try:
            with self._open() as connection:
                connection.execute("LISTEN cuzk")
                for _ in connection.notifies(timeout=pause, stop_after=1):
                    time.sleep(min(0.05, pause))
        except DatabaseAway:
            time.sleep(pause)

    @contextmanager
    def _open(self) -> Iterator[psycopg.Connection[Any]]:
        try:
            if self._connection is None or self._connection.broken:
                self._connection = connect(self._url, "cuzk submit")
            yield self._connection
        except psycopg.Error as error:
            self.close()
            text = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            kind = DatabaseFull if is_full(error) else DatabaseAway if is_away(error) else DatabaseUnusable
            raise kind(text) from error
