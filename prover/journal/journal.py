"""The journal of one session: everything that a prover shares with the database."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psycopg

from prover.pipeline.clock import Clock
from prover.pipeline.sources import ClaimedJob, EngineControl
from prover.states import Refused, Transition

from . import spool
from .claims import Claims
from .connection import connect
from .errors import DatabaseAway, SessionLost
from .heartbeat import Heartbeat
from .records import Anomaly, Delivery, Proof, Sample
from .session import AdminWish, admin_wishes, open_session, recover
from .watch import Watch, read_clock
from .writer import Writer


class Journal:
    """Takes transitions (`sink`), proofs and deliveries; gives jobs. The engine's `JobSource` and `ResultStore`.

    `Journal.open` begins the session. Then make the tracker with `journal.session`, the same clock and the sink
    `journal.sink`, and call `start` with the engine's control. `close` comes after the tracker's `session_stopped`.
    """

    def __init__(
        self, dsn: str, prover: str, session: str, spool_folder: Path, clock: Clock, wishes: Sequence[AdminWish] = ()
    ) -> None:
        """For a session whose row is there already; `open` makes one."""
        self.dsn, self.prover, self.session, self.clock = dsn, prover, session, clock
        self.wishes = tuple(wishes)  # of people for this prover's workers, from earlier sessions
        self._control: EngineControl | None = None
        self._losing, self._is_lost = threading.Lock(), False
        self._writer = Writer(dsn, session, spool.Spool(spool_folder, session), on_lost=self._lose)
        self._claims = Claims(dsn, session, lambda: self.trouble)
        self._heartbeat = Heartbeat(dsn, session)
        self._watch: Watch | None = None
        self._writer.start()
        self._heartbeat.ensure()

    @staticmethod
    def open(dsn: str, prover: str, spool_folder: Path, *, version: str, clock: Clock) -> Journal:
        """Begin a session: recover the spools of dead ones, end predecessors, make the row, teach `clock` the time.

        Raises DatabaseAway, ProverNameTaken, SpoolUnwritable.
        """
        spool.prepare(spool_folder)
        try:
            with connect(dsn, "cuzk start") as connection:
                recover(connection, spool_folder)
                session = open_session(connection, prover, version)
                read_clock(connection, clock)
                return Journal(dsn, prover, session, spool_folder, clock, admin_wishes(connection, prover))
        except psycopg.OperationalError as error:
            raise DatabaseAway(str(error).strip()) from error

    def start(self, control: EngineControl) -> None:
        """Begin to hand over commands and results, and to wake the engine."""
        self._control = control
        self._watch = Watch(self.dsn, self.session, self.prover, control, self.clock, self._heartbeat, self._lose)
        self._watch.start()

    def close(self, timeout_s: float = 10.0) -> bool:
        """Write everything down and end the heartbeat. False when something could be kept nowhere."""
        if self._watch is not None:
            self._watch.stop()
        kept = self._writer.close(timeout_s)
        self._heartbeat.stop()
        self._claims.close()
        return kept

    # -- what the engine calls -------------------------------------------------------------------------------------

    def sink(self, made: Transition | Refused) -> None:
        """A sink of the tracker: returns at once."""
        self._writer.put(made)

    def put_proof(self, job: str, partition: int, attempt_no: int, proof: bytes) -> None:
        """Keep a verified proof of one partition; once, whatever became of its attempt."""
        self._writer.put(Proof(job, partition, attempt_no, proof, self.clock.read_us()))

    def put_delivery(self, job: str, proof: bytes) -> None:
        """Keep the assembled and verified proof of a job; the job's `done` follows, and is written with or after it."""
        self._writer.put(Delivery(job, proof, self.clock.read_us()))

    def sample(self, gauges: Mapping[str, Any]) -> None:
        """Gauges of this moment; when several are put within one batch, the last stands for them."""
        self._writer.put(Sample(self.clock.read_us(), gauges))

    def alarm(self, code: str, entity: str, entity_id: str, state: str, detail: Mapping[str, Any]) -> None:
        """Something that people should look at: an anomaly of the session, `code` as docs/configuration.md has it."""
        self._writer.alarm(Anomaly(None, self.clock.read_us(), code, entity, entity_id, state, state, detail))

    def tick(self) -> None:
        """The engine's own loop runs: to be called at least once a second."""
        self._heartbeat.tick()

    def claim(self, limit: int, min_priority: int = 0) -> Sequence[ClaimedJob]:
        """Lease up to `limit` queued jobs of at least `min_priority`, best first; none while there is `trouble`."""
        return self._claims.claim(limit, min_priority)

    def claim_oldest(self, max_priority: int, waited_s: float) -> Sequence[ClaimedJob]:
        """Lease the oldest job of at most `max_priority` that has waited so long; none while there is `trouble`."""
        return self._claims.claim_oldest(max_priority, waited_s)

    def depth(self) -> int | None:
        """How many jobs wait for a prover, as of the last look."""
        depths = None if self._watch is None else self._watch.depths
        return None if depths is None else sum(depths.values())

    def depths(self) -> Mapping[str, int]:
        """The same by kind, without kinds of which none waits; empty when unknown too."""
        return (None if self._watch is None else self._watch.depths) or {}

    @property
    def trouble(self) -> str | None:
        """Why nothing new is claimed now (a code), or None."""
        return SessionLost.code if self._is_lost else self._writer.trouble

    @property
    def healthy(self) -> bool:
        """Whether new work may be claimed."""
        return self.trouble is None

    @property
    def waiting(self) -> int:
        """Records that the database has not confirmed."""
        return self._writer.waiting

    def flush(self, timeout_s: float = 10.0) -> bool:
        """Wait until the database has what was put so far."""
        return self._writer.flush(timeout_s)

    def _lose(self, reason: str) -> None:
        with self._losing:
            first, self._is_lost = not self._is_lost, True
        if first and self._control is not None:
            self._control.session_lost(reason)
