"""How long the site waits for its database. One that is frozen, or behind a network that swallows all, sends no error:
without a bound of our own, whoever asks it something waits for ever.

What is bounded is silence, and the database's own work: a large request over a slow link may take as long as it moves.
"""

from __future__ import annotations

import fcntl
import struct
import termios
import time
from collections.abc import Generator
from typing import Any, Final

import psycopg
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from psycopg.pq import TransactionStatus

STATEMENT_S: Final = 12  # the database itself ends a page's statement that takes longer
LOOK_S: Final = 0.1  # how often a wait looks at the clock
ANSWER_S: Final = 15.0  # in which something must come or go while there is no answer


class NoAnswer(psycopg.OperationalError):
    """The database does not answer."""


class PatientConnection(psycopg.AsyncConnection[tuple[Any, ...]]):
    """A statement for which nothing comes or goes in `answer_s` ends with NoAnswer, and its connection with it."""

    answer_s = ANSWER_S

    async def wait(self, gen: Any, interval: float = LOOK_S, timeout: float | None = None) -> Any:
        """As psycopg's, but never for ever."""
        try:
            return await super().wait(_moving(gen, self.pgconn.socket, self.answer_s), interval, timeout)
        except psycopg.OperationalError as error:
            _give_up(self, error)
            raise


def serve_patiently() -> None:
    """From now on hold Django's connections to the bounds. For a process that serves: a migration may take its time."""
    connection_created.connect(_bound, dispatch_uid="patience")


def _bound(sender: object, connection: BaseDatabaseWrapper, **_: Any) -> None:
    """Bound every wait of a connection that Django has just made."""
    driver: psycopg.Connection = connection.connection
    plain = driver.wait

    def wait(gen: Any, interval: float = LOOK_S, timeout: float | None = None) -> Any:
        try:
            return plain(_moving(gen, driver.pgconn.socket, ANSWER_S), interval, timeout)
        except psycopg.OperationalError as error:
            _give_up(driver, error)
            raise

    driver.wait = wait  # type: ignore[method-assign]
    driver.execute(f"SET statement_timeout = '{STATEMENT_S}s'")


def _moving(gen: Generator[Any, Any, Any], socket: int, silence_s: float) -> Generator[Any, Any, Any]:
    """The driver's generator; it raises NoAnswer when for `silence_s` nothing came, went, or left the kernel's buffer.

    What the kernel has taken may take minutes to leave: while it gets less, the link works.
    """
    moved_at, before = time.monotonic(), _unsent(socket)
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            now, left = time.monotonic(), _unsent(socket)
            if ready or left != before:
                moved_at, before = now, left
            elif now - moved_at > silence_s:
                raise NoAnswer
            wanted = gen.send(ready)
    except StopIteration as end:
        return end.value


def _unsent(socket: int) -> int:
    """Bytes that the kernel has taken and the other side has not; 0 where the kernel does not tell."""
    try:
        (count,) = struct.unpack("i", fcntl.ioctl(socket, termios.TIOCOUTQ, bytes(4)))
    except OSError:
        return 0
    return int(count)


def _give_up(connection: psycopg.Connection | psycopg.AsyncConnection, error: psycopg.OperationalError) -> None:
    """A statement that is still under way after an error is one whose answer did not come: nothing can follow it."""
    if connection.pgconn.transaction_status == TransactionStatus.ACTIVE:
        connection.pgconn.finish()
        raise NoAnswer("the database does not answer") from error
