"""The thread that looks into the database: every second, and at once when somebody there wakes it (LISTEN).

It hands over commands and results that came from elsewhere, wakes the engine when there is work, keeps the clock and
the heartbeat process going, and knows how deep the queue is.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import psycopg
import structlog

from prover.pipeline.clock import Clock
from prover.pipeline.sources import EngineCommand, EngineControl

from .connection import connect
from .heartbeat import Heartbeat

INTERVAL = 1.0  # seconds
CLOCK_EVERY = 30.0  # seconds between looks at the database's clock

log = structlog.get_logger(__name__)

#: those for its workers and keys and for itself; one of a job is for the session that holds it, whoever had it before
_COMMANDS = """SELECT c.id::text, c.action, c.target, c.requested_by_name, to_us(c.state_at), c.arguments, c.target_kind
    FROM command c LEFT JOIN job j ON j.id = CASE c.target_kind WHEN 'job' THEN c.target::uuid END
    WHERE c.state IN ('pending', 'taken')
        AND CASE c.target_kind WHEN 'job' THEN j.session_id = %(session)s ELSE c.prover = %(prover)s END
    ORDER BY c.requested_at"""
#: proofs of jobs that this session holds, brought by others
_RESULTS = """SELECT p.job_id::text, p.partition, p.proof FROM job j JOIN proof p ON p.job_id = j.id
    WHERE j.session_id = %(session)s AND j.ended_at IS NULL AND p.session_id <> %(session)s"""
_DEPTHS = """SELECT kind, count(*) FROM job WHERE state = 'queued' AND session_id IS NULL AND ended_at IS NULL
    GROUP BY kind ORDER BY kind"""


def read_clock(connection: psycopg.Connection, clock: Clock) -> None:
    """Teach `clock` the database's time: the quickest of three looks, which is right within half its round trip.

    Whatever the database has seen so far is earlier than the clock's next stamp.
    """
    looks = []
    for _ in range(3):
        before = time.monotonic_ns()
        (now_us,) = connection.execute("SELECT to_us(clock_timestamp())").fetchone() or (0,)
        after = time.monotonic_ns()
        looks.append((after - before, now_us, (before + after) // 2))
    _, database_us, mono_ns = min(looks)
    clock.set_database_time(database_us, mono_ns)
    clock.advance_to(max(now_us for _, now_us, _ in looks))


class Watch:
    """One for a session. Everything it calls in `control` is quick."""

    def __init__(
        self, dsn: str, session: str, prover: str, control: EngineControl, clock: Clock, heartbeat: Heartbeat,
        on_lost: Callable[[str], None],
    ) -> None:  # fmt: skip
        """Starts nothing. `on_lost` is called when the heartbeat finds that the session has ended."""
        self._dsn, self._session, self._prover = dsn, session, prover
        self._control, self._clock, self._heartbeat, self._on_lost = control, clock, heartbeat, on_lost
        self._handed: set[str] = set()  # commands
        self._known: set[tuple[str, int]] = set()  # results: (job, partition)
        self._connection: psycopg.Connection | None = None
        self._clock_at = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="journal-watch", daemon=True)
        self.depths: dict[str, int] | None = None  # kind -> jobs that wait; None: unknown
        self.lost = False

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._stop.set()
        self._thread.join(30)

    def _run(self) -> None:
        while not self._stop.is_set():
            started = time.monotonic()
            try:
                self._look()
                self._wait()
            except psycopg.Error as error:
                log.warning("database does not answer", error=str(error), session=self._session)
                self._close()
            except Exception:
                log.exception("watch failed", session=self._session)
                self._close()
            if self._connection is None:
                self._stop.wait(max(0.0, INTERVAL - (time.monotonic() - started)))
        self._close()

    def _look(self) -> None:
        if not self.lost and not self._heartbeat.ensure():
            self.lost = True
            self._on_lost("the heartbeat found the session ended")
        connection = self._connect()
        if time.monotonic() >= self._clock_at:
            read_clock(connection, self._clock)
            self._clock_at = time.monotonic() + CLOCK_EVERY
        self._hand_over_commands(connection)
        self._hand_over_results(connection)
        self.depths = dict(connection.execute(_DEPTHS).fetchall())
        if self.depths:
            self._control.wake()

    def _hand_over_commands(self, connection: psycopg.Connection) -> None:
        rows = connection.execute(_COMMANDS, {"session": self._session, "prover": self._prover}).fetchall()
        for command_id, *fields in rows:
            if command_id not in self._handed:
                self._handed.add(command_id)
                self._control.command(EngineCommand(command_id, *fields))
        self._handed &= {row[0] for row in rows}  # those that are answered need no memory

    def _hand_over_results(self, connection: psycopg.Connection) -> None:
        with connection.cursor(binary=True) as cursor:
            rows = cursor.execute(_RESULTS, {"session": self._session}).fetchall()
        for job, partition, proof in rows:
            if (job, partition) not in self._known:
                self._known.add((job, partition))
                self._control.result_arrived(job, partition, proof)
        self._known &= {(job, partition) for job, partition, _ in rows}

    def _wait(self) -> None:
        """Until the next look is due or somebody notifies; in short steps, so that `stop` is quick."""
        assert self._connection is not None
        until = time.monotonic() + INTERVAL
        while not self._stop.is_set() and (left := until - time.monotonic()) > 0:
            if any(True for _ in self._connection.notifies(timeout=min(left, 0.2), stop_after=1)):
                return

    def _connect(self) -> psycopg.Connection:
        if self._connection is None:
            self._connection = connect(self._dsn, "cuzk watch")
            self._connection.execute("LISTEN cuzk_work")
        return self._connection

    def _close(self) -> None:
        self.depths = None
        if self._connection is not None:
            self._connection.close()
        self._connection = None
