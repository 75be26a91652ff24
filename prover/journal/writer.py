"""The one thread that writes: what is put goes into a queue, and from there into the database, or the spool meanwhile.

`put` never waits. Every 25 ms the queue is written in one transaction. When the database is away, what was put and not
confirmed goes to the spool (fsynced) and is replayed, in order, when it is back. When neither accepts, records wait in
memory. `trouble` says which of these it is, and then nothing new should be claimed.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from itertools import count

import psycopg
import structlog

from prover.states import Refused, Transition

from .aside import Aside, is_refusal
from .connection import connect, is_away, is_full
from .errors import DatabaseAway, DatabaseFull, SessionLost, SpoolFull
from .ledger import MAX_BATCH, Ledger
from .records import Anomaly, Record
from .spool import Spool

INTERVAL = 0.025  # seconds between batches
LOOK_EVERY_S = 1.0  # at the room on the spool's disk
MAX_QUEUE = 200_000  # records in memory; more, and nothing new is claimed
RETRY_MIN, RETRY_MAX = 0.25, 2.0  # seconds between attempts to reach the database

log = structlog.get_logger(__name__)


class Writer:
    """Owns the order of one session's records."""

    def __init__(
        self, dsn: str, session: str, spool: Spool, *, head: int = 0, on_lost: Callable[[str], None] | None = None
    ) -> None:
        """`head`: where the session's log stands. `on_lost` is called once, from the writer's thread."""
        self.dsn = dsn
        self.session = session
        self._on_lost = on_lost
        self._spool = spool
        self._aside = Aside(spool.path.parent, session)
        self._ledger = Ledger(session, self._aside, head=head, on_lost=self._lose)
        self._queue: deque[Record] = deque()
        self._pending: list[Record] = []  # taken from the queue; in neither database nor spool
        self._connection: psycopg.Connection | None = None
        self._retry_at, self._retry_s = 0.0, RETRY_MIN
        self._trouble: str | None = None  # of the database
        self._spool_full = False  # the disk refuses
        self._has_room, self._look_at = True, 0.0  # there is less room than may be needed; when to look again
        self._anomalies = count(1)
        self._wake, self._stop, self._idle = threading.Event(), threading.Event(), threading.Event()
        self._idle.set()
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)

    # -- for everybody ---------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def put(self, made: Transition | Refused | Record) -> None:
        """Take a record; returns at once. Records of one thread, or put under one lock, keep their order."""
        self._queue.append(Anomaly.of(made, next(self._anomalies)) if isinstance(made, Refused) else made)
        self._idle.clear()
        if not self._wake.is_set():
            self._wake.set()

    def alarm(self, anomaly: Anomaly) -> None:
        """Take an anomaly that is no refused move; it gets its number here."""
        self.put(replace(anomaly, number=next(self._anomalies)))

    @property
    def lost(self) -> str | None:
        """Why the session is not current any more; None while it is."""
        return self._ledger.lost

    @property
    def trouble(self) -> str | None:
        """None; or why nothing new should be claimed.

        session_lost, spool_full, queue_full, database_full or database_away.
        """
        if self.lost:
            return SessionLost.code
        if self._spool_full or not self._has_room:
            return SpoolFull.code
        return "queue_full" if len(self._queue) > MAX_QUEUE else self._trouble

    @property
    def waiting(self) -> int:
        """Records that the database has not confirmed; those in the spool count as one."""
        return len(self._queue) + len(self._pending) + (not self._spool.empty)

    def flush(self, timeout_s: float) -> bool:
        """Wait until the database has everything that was put before; False when time is over."""
        return self._idle.wait(timeout_s)

    def close(self, timeout_s: float = 10.0) -> bool:
        """Write what is left, to the database or else to the spool. False when something could be kept nowhere."""
        self.flush(timeout_s)
        self._stop.set()
        self._wake.set()
        self._thread.join(timeout_s + 30)
        return not self._queue and not self._pending and self._aside.empty

    # -- the thread ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stop.is_set():
            self._wake.wait(LOOK_EVERY_S)
            self._wake.clear()
            self._look_at_disk()
            self._turn()
            self._stop.wait(INTERVAL)
        self._turn()
        if self._connection is not None:
            self._connection.close()
        self._spool.close()

    def _turn(self) -> None:
        """Everything that can be written now; whatever goes wrong, the thread lives on and nothing is dropped."""
        try:
            self._write_all()
        except Exception as error:
            log.exception("journal cannot write", session=self.session)
            self._disconnect("database_away", error)
        if self._pending or self._queue or not self._aside.empty:
            self._wake.set()
        elif self._spool.empty:
            self._idle.set()
            if self._queue:  # put between the look and the flag
                self._idle.clear()

    def _write_all(self) -> None:
        if self._connection is None and not self._connect():
            self._keep()
            return
        assert self._connection is not None
        try:
            self._replay(self._connection)
            while self._take():
                self._ledger.write(self._connection, self._pending)
                self._pending = []
            self._set_trouble(None)
            self._flush_aside()
        except psycopg.Error as error:
            if not is_away(error) and not self._connection.broken:
                raise
            self._disconnect(_trouble_of(error), error)
            self._keep()

    def _take(self) -> bool:
        """Move a batch from the queue to `_pending`."""
        while len(self._pending) < MAX_BATCH and self._queue:
            self._pending.append(self._queue.popleft())
        return bool(self._pending)

    def _keep(self) -> None:
        """Put everything that waits into the spool."""
        try:
            while self._take():
                self._append(self._pending)
                self._pending = []
        except SpoolFull as error:
            self._set_spool_full(error)
        else:
            self._flush_aside()

    def _append(self, records: list[Record]) -> None:
        """Spool records; one that has no form there is set aside."""
        try:
            self._spool.append(records)
        except Exception as error:
            if not is_refusal(error):
                raise
            if len(records) > 1:
                self._append_one_by_one()
            else:
                self._aside.keep(records[0], error)

    def _append_one_by_one(self) -> None:
        while self._pending:
            self._append(self._pending[:1])
            del self._pending[0]

    def _look_at_disk(self) -> None:
        """A full disk is found before the spool is needed: what is claimed must be what can be kept."""
        if time.monotonic() < self._look_at:
            return
        self._look_at = time.monotonic() + LOOK_EVERY_S
        had, self._has_room = self._has_room, self._spool.has_room
        if had and not self._has_room:
            log.error("journal's spool has no room: nothing new is claimed", folder=str(self._spool.path.parent))
        elif not had and self._has_room:
            log.info("journal's spool has room again", folder=str(self._spool.path.parent))

    def _flush_aside(self) -> None:
        """What is set aside must be on the disk too before anything new is claimed."""
        self._set_spool_full(None if self._aside.flush() else SpoolFull(str(self._aside.path)))

    def _set_spool_full(self, error: SpoolFull | None) -> None:
        if error is not None and not self._spool_full:
            log.error("journal's spool is full", error=str(error), session=self.session, waiting=self.waiting)
        self._spool_full = error is not None

    def _replay(self, connection: psycopg.Connection) -> None:
        if self._spool.empty:
            return
        self._ledger.replay(connection, self._spool.read(self._aside.keep_line))
        self._spool.clear()
        log.info("journal replayed its spool", session=self.session, head=self._ledger.head)

    def _lose(self, reason: str) -> None:
        log.error("session lost", session=self.session, reason=reason)
        if self._on_lost is not None:
            self._on_lost(reason)

    # -- the connection --------------------------------------------------------------------------------------------

    def _connect(self) -> bool:
        if time.monotonic() < self._retry_at and not self._stop.is_set():
            return False
        try:
            self._connection = connect(self.dsn, "cuzk journal")
            self._ledger.reconnect(self._connection)
        except psycopg.Error as error:
            self._disconnect(_trouble_of(error), error)
            return False
        self._retry_s = RETRY_MIN
        return True

    def _disconnect(self, trouble: str, error: BaseException) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self._retry_at = time.monotonic() + self._retry_s
        self._retry_s = min(2 * self._retry_s, RETRY_MAX)
        self._set_trouble(trouble, error)

    def _set_trouble(self, trouble: str | None, error: BaseException | None = None) -> None:
        if trouble != self._trouble:
            if trouble:
                log.warning("journal in trouble", trouble=trouble, error=str(error), session=self.session)
            else:
                log.info("journal writes again", session=self.session)
        self._trouble = trouble


def _trouble_of(error: psycopg.Error) -> str:
    return (DatabaseFull if is_full(error) else DatabaseAway).code
