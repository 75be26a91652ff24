"""One session's place in the database: where its log stands, its rows, and what becomes of records that are refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

import psycopg

from prover.states import Transition

from . import batch
from .aside import MAX_TEXT, Aside, is_refusal
from .errors import RecordDamaged, RecordRefused, SessionLost
from .mirror import Mirror
from .records import Anomaly, Record

MAX_BATCH = 4000  # records in one transaction


class Ledger:
    """Writes records in order, each once. A record that the database refuses is set aside; all others get in."""

    def __init__(self, session: str, aside: Aside, *, head: int = 0, on_lost: Callable[[str], None] | None = None):
        """`head`: where the session's log stands. `on_lost` is called once, when the session is found to have ended."""
        self.session = session
        self.head = head
        self.lost: str | None = None  # why the session is not current any more
        self.late = 0  # moves that came after its end
        self._aside = aside
        self._mirror = Mirror(session)
        self._on_lost = on_lost

    def reconnect(self, connection: psycopg.Connection) -> None:
        """Before the first write over a connection: a commit that failed may have succeeded, so all is read again."""
        self._mirror = Mirror(self.session)
        row = connection.execute("SELECT head_seq FROM session WHERE id = %s", [self.session]).fetchone()
        self.head = row[0] if row else self.head

    def write(self, connection: psycopg.Connection, records: Sequence[Record]) -> None:
        """Write records in one transaction; those of a session that has ended as facts. Moves that are missing before
        them (damaged in the spool, be it at its end) leave marks in the log. Raises psycopg's errors of a database in
        trouble; what was written before is not written again."""
        try:
            self._write(connection, records)
        except batch.HeadMoved as moved:
            self.head = moved.head
            self.write(connection, records)
        except psycopg.errors.UniqueViolation as error:
            before = self.head
            self.reconnect(connection)
            if self.head != before:  # a commit that we believed lost
                self.write(connection, records)
            else:
                self._split(connection, records, error)
        except Exception as error:
            if not is_refusal(error):
                raise
            self._split(connection, records, error)

    def replay(self, connection: psycopg.Connection, kept: Iterator[Record]) -> None:
        """Write what a spool keeps."""
        for records in _chunks(kept, MAX_BATCH):
            self.write(connection, records)

    def _write(self, connection: psycopg.Connection, records: Sequence[Record]) -> None:
        if self.lost is None:
            try:
                for part in _chunks(fill_holes(self.session, records, self.head), MAX_BATCH):
                    self.head = batch.write(connection, self._mirror, self.head, part)
                return
            except SessionLost as error:
                self.lost = str(error)
                if self._on_lost is not None:
                    self._on_lost(self.lost)
        self.late += batch.write_facts(connection, self.session, records, self.lost)

    def _split(self, connection: psycopg.Connection, records: Sequence[Record], error: BaseException) -> None:
        """Find the record that is refused; it alone is set aside, and a mark and an anomaly stand for it."""
        if len(records) > 1:
            middle = len(records) // 2
            self.write(connection, records[:middle])
            self.write(connection, records[middle:])
            return
        (record,) = records
        self._aside.keep(record, error)
        self._write(connection, self._substitute(record, error))

    def _substitute(self, record: Record, error: BaseException) -> list[Record]:
        code, kind = RecordRefused.code, type(record).__name__.lower()
        detail = {"code": code, "error": f"{type(error).__name__}: {error}"[:MAX_TEXT]}
        if not isinstance(record, Transition):
            return [Anomaly(None, batch.now_us(), code, kind, "", "", "", detail)]
        if self.lost is not None:
            return []
        mark = batch.placeholder(self.session, record, code)
        return [mark, Anomaly(-mark.seq, mark.at_us, code, kind, self.session, "", "", detail)]


def _chunks(records: Iterator[Record], size: int) -> Iterator[list[Record]]:
    """Lists of at most `size`."""
    while chunk := list(islice(records, size)):
        yield chunk


def fill_holes(session: str, records: Iterable[Record], head: int) -> Iterator[Record]:
    """The same records, with marks where numbers are missing after `head` (a damaged line): the log stays dense."""
    for record in records:
        if isinstance(record, Transition):
            for seq in range(head + 1, record.seq):
                yield batch.placeholder(session, record, RecordDamaged.code, seq)
            head = max(head, record.seq)
        yield record
