"""Leases: queued jobs are given to one session each, in the order of the queue, however many provers ask at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import psycopg
import structlog

from prover.pipeline.attempts import order
from prover.pipeline.sources import ClaimedJob, JobInfo, PriorAttempt

from .connection import connect

log = structlog.get_logger(__name__)

#: conflicts with nothing but the marking of a lost session
_ALIVE = "SELECT 1 FROM session WHERE id = %s AND state = 'online' FOR KEY SHARE"
#: a job of which something was wished while another session held it is left to the database (settle_job_commands)
_FREE = """state = 'queued' AND session_id IS NULL AND ended_at IS NULL AND NOT EXISTS (SELECT FROM command
    WHERE target = job.id::text AND target_kind = 'job' AND command.state IN ('pending', 'taken'))"""
_BEST = f"""SELECT id FROM job WHERE {_FREE} AND priority >= %(least)s
    ORDER BY priority DESC, deadline NULLS LAST, number LIMIT %(limit)s FOR UPDATE SKIP LOCKED"""
_OLDEST = f"""SELECT id FROM job WHERE {_FREE} AND priority <= %(most)s
    AND submitted_at < clock_timestamp() - %(waited)s * interval '1 second'
    ORDER BY number LIMIT 1 FOR UPDATE SKIP LOCKED"""
_LEASE = """UPDATE job SET session_id = %(session)s, lease_epoch = lease_epoch + 1 WHERE id IN ({chosen})
    RETURNING id::text, kind, partitions, request_id, number, sector_size, priority, to_us(deadline), partition_index,
        miner_id, sector_number, submitted_by, to_us(state_at), to_us(submitted_at), losses"""
#: the time of a statement of ours runs while its answer travels; a request may be large, and the link slow
_PATIENTLY = "SET LOCAL statement_timeout = '1h'"
_REQUEST = "SELECT request FROM job_input WHERE job_id = %s"
_PROOFS = "SELECT partition, proof FROM proof WHERE job_id = %s"
_ATTEMPTS = """SELECT DISTINCT ON (partition) partition, attempt_no, state FROM attempt WHERE job_id = %s
    ORDER BY partition, attempt_no DESC"""


Leased = Sequence[Any]  # a row of _LEASE


def claim(connection: psycopg.Connection, session: str, limit: int, min_priority: int = 0) -> list[ClaimedJob]:
    """Lease up to `limit` queued jobs of at least `min_priority`, best first; none when the session is not online."""
    leased = lease(connection, session, _BEST, limit=limit, least=min_priority) if limit > 0 else []
    return [read(connection, row) for row in leased]


def lease(connection: psycopg.Connection, session: str, chosen: str, **parameters: Any) -> list[Leased]:
    """Take leases, best first, and commit: while the requests travel nobody waits for the rows of the jobs."""
    query = _LEASE.format(chosen=chosen)
    with connection.transaction(), connection.cursor(binary=True) as cursor:
        if cursor.execute(_ALIVE, [session]).fetchone() is None:
            return []
        leased = cursor.execute(query, {"session": session, **parameters}).fetchall()
    return sorted(leased, key=lambda row: order(JobInfo(*row[:-1])))


def read(connection: psycopg.Connection, leased: Leased) -> ClaimedJob:
    """A leased job with its request, and what earlier sessions left of it."""
    *fields, losses = leased
    info = JobInfo(*fields)
    with connection.transaction(), connection.cursor(binary=True) as cursor:
        cursor.execute(_PATIENTLY)
        (request,) = cursor.execute(_REQUEST, [info.id]).fetchone() or (b"",)
        proofs: dict[int, bytes] = dict(cursor.execute(_PROOFS, [info.id]).fetchall())
        attempts = {p: PriorAttempt(n, state) for p, n, state in cursor.execute(_ATTEMPTS, [info.id]).fetchall()}
    return ClaimedJob(info, request, proofs, attempts, losses)


class Claims:
    """The engine's `JobSource`: claims over a connection of its own, for one calling thread; never raises."""

    def __init__(self, dsn: str, session: str, trouble: Callable[[], str | None]) -> None:
        """`trouble` says why nothing may be claimed now, or None."""
        self._dsn, self._session, self._trouble = dsn, session, trouble
        self._connection: psycopg.Connection | None = None
        self._unread: deque[Leased] = deque()  # leased, and the database went away before they were read
        self._closed = False

    def claim(self, limit: int, min_priority: int = 0) -> Sequence[ClaimedJob]:
        """As `claim`; empty when the database is away, results could not be stored, or this is closed."""
        return self._take(_BEST, limit=limit, least=min_priority) if limit > 0 else []

    def claim_oldest(self, max_priority: int, waited_s: float) -> Sequence[ClaimedJob]:
        """Lease the oldest job of at most `max_priority` that was submitted `waited_s` ago or earlier; as `claim`."""
        return self._take(_OLDEST, most=max_priority, waited=waited_s)

    def _take(self, chosen: str, **parameters: Any) -> list[ClaimedJob]:
        taken: list[ClaimedJob] = []
        if self._closed or self._trouble() is not None:
            return taken
        try:
            self._connection = self._connection or connect(self._dsn, "cuzk claims")
            if not self._unread:
                self._unread.extend(lease(self._connection, self._session, chosen, **parameters))
            while self._unread:
                taken.append(read(self._connection, self._unread[0]))
                self._unread.popleft()
        except psycopg.Error as error:
            log.warning("cannot claim", error=str(error), session=self._session, leased=len(self._unread))
            self._disconnect()
        return taken

    def close(self) -> None:
        """Claim nothing more."""
        self._closed = True
        self._disconnect()

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None
