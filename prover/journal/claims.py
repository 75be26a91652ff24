"""Leases: queued jobs are given to one session each, in the order of the queue, however many provers ask at once."""

from __future__ import annotations

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
_LEASE = """UPDATE job SET session_id = %(session)s, lease_epoch = lease_epoch + 1 WHERE id IN (
        SELECT id FROM job WHERE state = 'queued' AND session_id IS NULL AND ended_at IS NULL
            AND priority >= %(least)s AND NOT EXISTS (SELECT FROM command
                WHERE target = job.id::text AND target_kind = 'job' AND command.state IN ('pending', 'taken'))
        ORDER BY priority DESC, deadline NULLS LAST, number LIMIT %(limit)s FOR UPDATE SKIP LOCKED)
    RETURNING id::text, kind, partitions, request_id, number, sector_size, priority, to_us(deadline), partition_index,
        miner_id, sector_number, submitted_by, to_us(state_at), losses"""
#: the time of a statement of ours runs while its answer travels; a request may be large, and the link slow
_PATIENTLY = "SET LOCAL statement_timeout = '1h'"
_REQUEST = "SELECT request FROM job_input WHERE job_id = %s"
_PROOFS = "SELECT partition, proof FROM proof WHERE job_id = %s"
_ATTEMPTS = """SELECT DISTINCT ON (partition) partition, attempt_no, state FROM attempt WHERE job_id = %s
    ORDER BY partition, attempt_no DESC"""


def claim(connection: psycopg.Connection, session: str, limit: int, min_priority: int = 0) -> list[ClaimedJob]:
    """Lease up to `limit` queued jobs of at least `min_priority`, best first; none when the session is not online."""
    with connection.transaction(), connection.cursor(binary=True) as cursor:
        if limit < 1 or cursor.execute(_ALIVE, [session]).fetchone() is None:
            return []
        leased = cursor.execute(_LEASE, {"session": session, "limit": limit, "least": min_priority}).fetchall()
        if leased:
            cursor.execute(_PATIENTLY)
        claimed = [_claimed(cursor, row) for row in leased]
    return sorted(claimed, key=lambda job: order(job.info))


def _claimed(cursor: psycopg.Cursor[Any], row: Sequence[Any]) -> ClaimedJob:
    *fields, losses = row
    info = JobInfo(*fields)
    (request,) = cursor.execute(_REQUEST, [info.id]).fetchone() or (b"",)
    proofs = dict(cursor.execute(_PROOFS, [info.id]).fetchall())
    attempts = {p: PriorAttempt(n, state) for p, n, state in cursor.execute(_ATTEMPTS, [info.id]).fetchall()}
    return ClaimedJob(info, request, proofs, attempts, losses)


class Claims:
    """The engine's `JobSource`: claims over a connection of its own, for one calling thread; never raises."""

    def __init__(self, dsn: str, session: str, trouble: Callable[[], str | None]) -> None:
        """`trouble` says why nothing may be claimed now, or None."""
        self._dsn, self._session, self._trouble = dsn, session, trouble
        self._connection: psycopg.Connection | None = None
        self._closed = False

    def claim(self, limit: int, min_priority: int = 0) -> Sequence[ClaimedJob]:
        """As `claim`; empty when the database is away, results could not be stored, or this is closed."""
        if self._closed or self._trouble() is not None:
            return []
        try:
            self._connection = self._connection or connect(self._dsn, "cuzk claims")
            return claim(self._connection, self._session, limit, min_priority)
        except psycopg.Error as error:
            log.warning("cannot claim", error=str(error), session=self._session)
            self._disconnect()
            return []

    def close(self) -> None:
        """Claim nothing more."""
        self._closed = True
        self._disconnect()

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None
